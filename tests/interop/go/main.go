// Apache's Go client as a user runs it, told what to do: one JSON object a line in, one a line out.
//
// A line in has a "verb" and its words. It is answered by {"answer": …}, or by {"refused": "…", "code": …} with what went
// wrong; between answers, what happens by itself is told as {"event": …, "of": name, …}. Verbs and words are those of the
// Java program beside this one, as far as Go's client has the thing.
package main

import (
	"bufio"
	"encoding/json"
	"fmt"
	"os"
	"sync"

	"github.com/apache/rocketmq-client-go/v2/rlog"
)

// verb is one thing that can be asked.
type verb func(words) (any, error)

var verbs = map[string]verb{
	"producer":      startProducer,
	"producer-stop": stopProducer,
	"send":          send,
	"send-select":   sendSelected,
	"send-async":    sendAsync,
	"send-oneway":   sendOneway,
	"send-batch":    sendBatch,
	"push":          startPush,
	"push-stop":     stopPush,
	"ready":         func(words) (any, error) { return nil, nil },
}

// words is a line in.
type words struct {
	Verb          string
	Name          string
	Group         string
	NameServer    string `json:"name_server"`
	Message       given
	Messages      []given
	Argument      int
	Subscriptions [][3]string
	Orderly       bool
	Watched       bool
	Allocate      allocate
	Settings      struct {
		MessageModel     string
		ConsumeFromWhere string
		MaxReconsume     int32 `json:"maxReconsumeTimes"`
	}
}

func main() {
	rlog.SetLogLevel("warn")
	in := bufio.NewScanner(os.Stdin)
	in.Buffer(make([]byte, 1<<16), 1<<26)
	for in.Scan() {
		tell(answered(in.Bytes()))
	}
	// Nobody is left to talk to: go without saying good-bye, which would wait for servers that may be gone.
	os.Exit(0)
}

func answered(line []byte) (answer map[string]any) {
	defer func() {
		if panicked := recover(); panicked != nil {
			answer = refused(fmt.Errorf("panic: %v", panicked))
		}
	}()
	var asked words
	if err := json.Unmarshal(line, &asked); err != nil {
		return refused(err)
	}
	do, known := verbs[asked.Verb]
	if !known {
		return refused(fmt.Errorf("Go's client has no %q", asked.Verb))
	}
	found, err := do(asked)
	if err != nil {
		return refused(err)
	}
	return map[string]any{"answer": found}
}

// refused has no code: Go's client tells what a broker answered as text alone.
func refused(err error) map[string]any {
	return map[string]any{"refused": err.Error(), "code": -1}
}

// happened tells of something that was not asked for.
func happened(event string, of string, facts map[string]any) {
	facts["event"], facts["of"] = event, of
	tell(facts)
}

var out sync.Mutex

func tell(what map[string]any) {
	line, err := json.Marshal(what)
	if err != nil {
		panic(err)
	}
	out.Lock()
	defer out.Unlock()
	os.Stdout.Write(append(line, '\n'))
}
