package main

import (
	"fmt"
	"sync/atomic"

	"github.com/apache/rocketmq-client-go/v2/consumer"
	"github.com/apache/rocketmq-client-go/v2/primitive"
)

// allocate says how a group shares queues, by Java's names. Go's ring is not Java's (another hash), and its room nearby
// is the average: neither can be shared with Java.
type allocate struct {
	Name   string
	Rooms  []string
	Queues []queue
}

func (asked allocate) strategy() (consumer.AllocateStrategy, error) {
	switch asked.Name {
	case "", "AVG":
		return consumer.AllocateByAveragely, nil
	case "AVG_BY_CIRCLE":
		return consumer.AllocateByAveragelyCircle, nil
	case "MACHINE_ROOM":
		return consumer.AllocateByMachineRoom(asked.Rooms), nil
	case "CONFIG":
		var queues []*primitive.MessageQueue
		for _, each := range asked.Queues {
			found := primitive.MessageQueue(each)
			queues = append(queues, &found)
		}
		return func(
			_, _ string, all []*primitive.MessageQueue, _ []string,
		) (mine []*primitive.MessageQueue) {
			// Each topic is shared by itself, and the retry topic is one of them: leave out what is not asked about.
			for _, each := range queues {
				if len(all) > 0 && each.Topic == all[0].Topic {
					mine = append(mine, each)
				}
			}
			return mine
		}, nil
	}
	return nil, fmt.Errorf("Go's client has no strategy that shares with Java's %q", asked.Name)
}

// knowing keeps the client's id, which the library tells to nobody but a strategy.
func knowing(strategy consumer.AllocateStrategy, id *atomic.Value) consumer.AllocateStrategy {
	return func(
		group, own string, all []*primitive.MessageQueue, members []string,
	) []*primitive.MessageQueue {
		id.Store(own)
		return strategy(group, own, all, members)
	}
}
