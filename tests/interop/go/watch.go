package main

import (
	"encoding/json"
	"reflect"
	"sort"
	"sync"
	"sync/atomic"
	"time"
	"unsafe"

	rocketmq "github.com/apache/rocketmq-client-go/v2"
	"github.com/apache/rocketmq-client-go/v2/primitive"
)

const watchEvery = 5 * time.Millisecond

// queue is written [topic, broker, number].
type queue primitive.MessageQueue

func (each queue) MarshalJSON() ([]byte, error) {
	return json.Marshal([]any{each.Topic, each.BrokerName, each.QueueId})
}

func (each *queue) UnmarshalJSON(text []byte) error {
	return json.Unmarshal(text, &[]any{&each.Topic, &each.BrokerName, &each.QueueId})
}

// watches end when their consumer is stopped.
var watches = map[string]chan struct{}{}

// watch tells which queues a consumer holds, whenever that is another set than before.
func watch(name string, watched rocketmq.PushConsumer, id *atomic.Value) {
	ended := make(chan struct{})
	watches[name] = ended
	table := heldBy(watched)
	go func() {
		var last []queue
		for {
			if now := held(table); !reflect.DeepEqual(now, last) {
				last = now
				happened("queues", name, map[string]any{
					"at_ms":  time.Now().UnixMilli(),
					"id":     id.Load(),
					"queues": now,
				})
			}
			select {
			case <-ended:
				return
			case <-time.After(watchEvery):
			}
		}
	}()
}

// heldBy finds the consumer's own table. The library shows it to brokers alone, and asks them for offsets on the way:
// looking this often must not cost requests.
func heldBy(watched rocketmq.PushConsumer) *sync.Map {
	table := reflect.ValueOf(watched).Elem().FieldByName("defaultConsumer").Elem().FieldByName("processQueueTable")
	return (*sync.Map)(unsafe.Pointer(table.UnsafeAddr()))
}

func held(table *sync.Map) []queue {
	found := []queue{}
	table.Range(func(key, _ any) bool {
		found = append(found, queue(key.(primitive.MessageQueue)))
		return true
	})
	sort.Slice(found, func(i, j int) bool {
		a, b := found[i], found[j]
		if a.Topic != b.Topic {
			return a.Topic < b.Topic
		}
		if a.BrokerName != b.BrokerName {
			return a.BrokerName < b.BrokerName
		}
		return a.QueueId < b.QueueId
	})
	return found
}
