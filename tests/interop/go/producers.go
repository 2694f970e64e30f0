package main

import (
	"context"
	"fmt"

	rocketmq "github.com/apache/rocketmq-client-go/v2"
	"github.com/apache/rocketmq-client-go/v2/primitive"
	"github.com/apache/rocketmq-client-go/v2/producer"
)

// producers are known by name; lines come one after the other, so nobody else looks here at the same time.
var producers = map[string]rocketmq.Producer{}

// bySelection takes the queue of a number where the message brings one, and the next in turn otherwise.
type bySelection struct {
	inTurn producer.QueueSelector
}

const argument = "argument"

func (each bySelection) Select(
	message *primitive.Message, queues []*primitive.MessageQueue, last string,
) *primitive.MessageQueue {
	var number int
	if _, err := fmt.Sscan(message.GetProperty(argument), &number); err == nil {
		return queues[number%len(queues)]
	}
	return each.inTurn.Select(message, queues, last)
}

func startProducer(asked words) (any, error) {
	made, err := rocketmq.NewProducer(
		producer.WithGroupName(asked.Group),
		producer.WithInstanceName(asked.Name),
		producer.WithNsResolver(primitive.NewPassthroughResolver([]string{asked.NameServer})),
		producer.WithQueueSelector(bySelection{producer.NewRoundRobinQueueSelector()}),
	)
	if err != nil {
		return nil, err
	}
	if err := made.Start(); err != nil {
		return nil, err
	}
	producers[asked.Name] = made
	return asked.Name, nil
}

func stopProducer(asked words) (any, error) {
	stopped := producers[asked.Name]
	if stopped == nil {
		return nil, fmt.Errorf("no producer %q runs", asked.Name)
	}
	delete(producers, asked.Name)
	return nil, stopped.Shutdown()
}

func send(asked words) (any, error) {
	return sent(asked, asked.Message.message())
}

func sendSelected(asked words) (any, error) {
	message := asked.Message.message()
	message.WithProperty(argument, fmt.Sprint(asked.Argument))
	return sent(asked, message)
}

func sendBatch(asked words) (any, error) {
	var messages []*primitive.Message
	for _, each := range asked.Messages {
		messages = append(messages, each.message())
	}
	return sent(asked, messages...)
}

func sent(asked words, messages ...*primitive.Message) (any, error) {
	result, err := producers[asked.Name].SendSync(context.Background(), messages...)
	if err != nil {
		return nil, err
	}
	return toldResult(result), nil
}

func sendAsync(asked words) (any, error) {
	tellResult := func(_ context.Context, result *primitive.SendResult, err error) {
		if err != nil {
			happened("not-sent", asked.Name, map[string]any{"thrown": err.Error()})
			return
		}
		happened("sent", asked.Name, toldResult(result))
	}
	return nil, producers[asked.Name].SendAsync(context.Background(), tellResult, asked.Message.message())
}

func sendOneway(asked words) (any, error) {
	return nil, producers[asked.Name].SendOneWay(context.Background(), asked.Message.message())
}
