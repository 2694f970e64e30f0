package main

import (
	"hash/crc32"
	"strings"

	"github.com/apache/rocketmq-client-go/v2/primitive"
)

// Longer bodies are told by their length and sum alone.
const shown = 1000

// given is a message as a line has it: its body is a text, or a letter and how often.
type given struct {
	Topic      string
	Body       string
	Times      int
	Tags       string
	Keys       string
	Level      int
	Shard      string
	Properties map[string]string
}

func (each given) message() *primitive.Message {
	body := each.Body
	if each.Times > 0 {
		body = strings.Repeat(body, each.Times)
	}
	message := primitive.NewMessage(each.Topic, []byte(body))
	if each.Properties != nil {
		message.WithProperties(each.Properties)
	}
	if each.Tags != "" {
		message.WithTag(each.Tags)
	}
	if each.Keys != "" {
		message.WithKeys(strings.Split(each.Keys, " "))
	}
	if each.Level > 0 {
		message.WithDelayTimeLevel(each.Level)
	}
	if each.Shard != "" {
		message.WithShardingKey(each.Shard)
	}
	return message
}

var statuses = map[primitive.SendStatus]string{
	primitive.SendOK:                "SEND_OK",
	primitive.SendFlushDiskTimeout:  "FLUSH_DISK_TIMEOUT",
	primitive.SendFlushSlaveTimeout: "FLUSH_SLAVE_TIMEOUT",
	primitive.SendSlaveNotAvailable: "SLAVE_NOT_AVAILABLE",
	primitive.SendUnknownError:      "UNKNOWN_ERROR",
}

func toldResult(result *primitive.SendResult) map[string]any {
	return map[string]any{
		"status":    statuses[result.Status],
		"id":        result.MsgID,
		"offset_id": result.OffsetMsgID,
		"queue":     result.MessageQueue.QueueId,
		"offset":    result.QueueOffset,
	}
}

func toldMessage(message *primitive.MessageExt) map[string]any {
	told := map[string]any{
		"topic":      message.Topic,
		"broker":     nil,
		"queue":      -1,
		"offset":     message.QueueOffset,
		"body":       nil,
		"size":       len(message.Body),
		"sum":        crc32.ChecksumIEEE(message.Body),
		"tags":       orNull(message.GetTags()),
		"keys":       orNull(message.GetKeys()),
		"id":         message.MsgId,
		"unique":     orNull(message.GetProperty(primitive.PropertyUniqueClientMessageIdKeyIndex)),
		"times":      message.ReconsumeTimes,
		"born_ms":    message.BornTimestamp,
		"stored_ms":  message.StoreTimestamp,
		"sys_flag":   message.SysFlag,
		"properties": message.GetProperties(),
	}
	if message.Queue != nil {
		told["broker"], told["queue"] = orNull(message.Queue.BrokerName), message.Queue.QueueId
	}
	if len(message.Body) <= shown {
		told["body"] = string(message.Body)
	}
	return told
}

// orNull tells an absent text as Java does.
func orNull(text string) any {
	if text == "" {
		return nil
	}
	return text
}
