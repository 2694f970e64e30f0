package main

import (
	"context"
	"fmt"
	"strconv"
	"sync/atomic"
	"time"

	rocketmq "github.com/apache/rocketmq-client-go/v2"
	"github.com/apache/rocketmq-client-go/v2/consumer"
	"github.com/apache/rocketmq-client-go/v2/primitive"
)

// consumers are known by name; lines come one after the other, so nobody else looks here at the same time.
var consumers = map[string]rocketmq.PushConsumer{}

// How long a queue waits before a message that failed in order is tried again.
const suspend = 100 * time.Millisecond

func startPush(asked words) (any, error) {
	strategy, err := asked.Allocate.strategy()
	if err != nil {
		return nil, err
	}
	var id atomic.Value
	options := []consumer.Option{
		consumer.WithGroupName(asked.Group),
		consumer.WithInstance(asked.Name),
		consumer.WithNsResolver(primitive.NewPassthroughResolver([]string{asked.NameServer})),
		consumer.WithConsumerModel(consumer.Clustering),
		consumer.WithConsumeFromWhere(consumer.ConsumeFromLastOffset),
		consumer.WithConsumerOrder(asked.Orderly),
		consumer.WithSuspendCurrentQueueTimeMillis(suspend),
		consumer.WithStrategy(knowing(strategy, &id)),
	}
	if asked.Settings.MessageModel == "BROADCASTING" {
		options = append(options, consumer.WithConsumerModel(consumer.BroadCasting))
	}
	if asked.Settings.ConsumeFromWhere == "CONSUME_FROM_FIRST_OFFSET" {
		options = append(options, consumer.WithConsumeFromWhere(consumer.ConsumeFromFirstOffset))
	}
	if asked.Settings.MaxReconsume > 0 {
		options = append(options, consumer.WithMaxReconsumeTimes(asked.Settings.MaxReconsume))
	}
	made, err := rocketmq.NewPushConsumer(options...)
	if err != nil {
		return nil, err
	}
	for _, each := range asked.Subscriptions {
		selector := consumer.MessageSelector{Type: consumer.ExpressionType(each[1]), Expression: each[2]}
		if err := made.Subscribe(each[0], selector, handler(asked.Name, asked.Orderly)); err != nil {
			return nil, err
		}
	}
	if asked.Watched {
		watch(asked.Name, made, &id)
	}
	if err := made.Start(); err != nil {
		return nil, err
	}
	consumers[asked.Name] = made
	return asked.Name, nil
}

func stopPush(asked words) (any, error) {
	stopped := consumers[asked.Name]
	if stopped == nil {
		return nil, fmt.Errorf("no consumer %q runs", asked.Name)
	}
	delete(consumers, asked.Name)
	if ended, watched := watches[asked.Name]; watched {
		delete(watches, asked.Name)
		close(ended)
	}
	return nil, stopped.Shutdown()
}

type handled = func(context.Context, ...*primitive.MessageExt) (consumer.ConsumeResult, error)

// handler does what a message wants: with "fails", it fails so many times; with "slow_ms", it takes that long.
func handler(name string, orderly bool) handled {
	again := consumer.ConsumeRetryLater
	if orderly {
		again = consumer.SuspendCurrentQueueAMoment
	}
	return func(_ context.Context, messages ...*primitive.MessageExt) (consumer.ConsumeResult, error) {
		result := consumer.ConsumeSuccess
		for _, message := range messages {
			fails, _ := strconv.Atoi(message.GetProperty("fails"))
			failed := int(message.ReconsumeTimes) < fails
			if failed {
				result = again
			}
			happened("message", name, map[string]any{
				"message": toldMessage(message),
				"failed":  failed,
				"at_ms":   time.Now().UnixMilli(),
				"batch":   len(messages),
			})
			slow, _ := strconv.Atoi(message.GetProperty("slow_ms"))
			time.Sleep(time.Duration(slow) * time.Millisecond)
		}
		return result, nil
	}
}
