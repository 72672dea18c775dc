// The official Go client, driven by the harness: see ../README.md for the commands, the plan and the events.
package main

import (
	"bufio"
	"context"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/apache/rocketmq-client-go/v2"
	"github.com/apache/rocketmq-client-go/v2/consumer"
	"github.com/apache/rocketmq-client-go/v2/primitive"
	"github.com/apache/rocketmq-client-go/v2/producer"
	"github.com/apache/rocketmq-client-go/v2/rlog"
)

const (
	batch        = 10
	sendDeadline = 90 * time.Second
)

var (
	options = map[string]string{}
	stdin   = bufio.NewReader(os.Stdin)
	output  sync.Mutex
)

func main() {
	for _, argument := range os.Args[2:] {
		name, value, _ := strings.Cut(argument, "=")
		options[name] = value
	}
	rlog.SetLogLevel("error")
	commands := map[string]func() error{"send": send, "consume": consume, "pull": pull}
	if err := commands[os.Args[1]](); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

func nameServers() primitive.NamesrvAddr {
	return strings.Split(options["namesrv"], ";")
}

// --- send ---

type planned struct {
	index   int
	how     string
	message *primitive.Message
}

func readPlan() ([]planned, error) {
	data, err := os.ReadFile(options["plan"])
	if err != nil {
		return nil, err
	}
	var plan []planned
	for _, line := range strings.Split(strings.TrimSuffix(string(data), "\n"), "\n") {
		f := strings.Split(line, "\t")
		index, err := strconv.Atoi(f[0])
		if err != nil {
			return nil, err
		}
		message := primitive.NewMessage(options["topic"], decode(f[4]))
		message.WithKeys([]string{string(decode(f[2]))})
		message.WithTag(string(decode(f[3])))
		for _, pair := range strings.Split(f[5], ",") {
			name, value, _ := strings.Cut(pair, ":")
			message.WithProperty(name, string(decode(value)))
		}
		plan = append(plan, planned{index, f[1], message})
	}
	return plan, nil
}

func send() error {
	p, err := rocketmq.NewProducer(
		producer.WithNameServer(nameServers()),
		producer.WithGroupName(options["group"]),
		producer.WithInstanceName(options["instance"]),
	)
	if err != nil {
		return err
	}
	if err = p.Start(); err != nil {
		return err
	}
	event("ready")
	pause := -1
	if text, given := options["pause"]; given {
		if pause, err = strconv.Atoi(text); err != nil {
			return err
		}
	}
	plan, err := readPlan()
	if err != nil {
		return err
	}
	for at := 0; at < len(plan); {
		if at == pause {
			event("paused")
			wait()
		}
		end := at + 1
		for end < len(plan) && end != pause && end-at < batch && plan[end].how == plan[at].how {
			end++
		}
		if err = sendRun(p, plan[at:end]); err != nil {
			return err
		}
		at = end
	}
	event("done")
	wait()
	if err = p.Shutdown(); err != nil {
		return err
	}
	event("stopped")
	return nil
}

func sendRun(p rocketmq.Producer, run []planned) error {
	switch run[0].how {
	case "sync":
		for _, one := range run {
			if err := sendSync(p, nil, one); err != nil {
				return err
			}
		}
		return nil
	case "async":
		return sendAsync(p, run)
	case "oneway":
		for _, one := range run {
			if err := p.SendOneWay(context.Background(), one.message); err != nil {
				return err
			}
			sent(one, nil)
		}
		return nil
	case "batch":
		return sendSync(p, run[1:], run[0])
	default:
		return errors.New("unknown way to send: " + run[0].how)
	}
}

// sendSync sends one message, or with more than one a batch, until the broker has confirmed it.
func sendSync(p rocketmq.Producer, more []planned, first planned) error {
	all := append([]planned{first}, more...)
	deadline := time.Now().Add(sendDeadline)
	for {
		messages := make([]*primitive.Message, len(all))
		for i, one := range all {
			messages[i] = one.message
		}
		result, err := p.SendSync(context.Background(), messages...)
		if err == nil {
			for _, one := range all {
				sent(one, result)
			}
			return nil
		}
		problem(err)
		if time.Now().After(deadline) {
			return err
		}
		time.Sleep(300 * time.Millisecond)
	}
}

func sendAsync(p rocketmq.Producer, run []planned) error {
	type answer struct {
		one    planned
		result *primitive.SendResult
		err    error
	}
	answers := make(chan answer, len(run))
	for _, one := range run {
		one := one // before Go 1.22 all callbacks would share it
		err := p.SendAsync(context.Background(), func(_ context.Context, result *primitive.SendResult, err error) {
			answers <- answer{one, result, err}
		}, one.message)
		if err != nil {
			answers <- answer{one, nil, err}
		}
	}
	for range run {
		select {
		case a := <-answers:
			if a.err == nil {
				sent(a.one, a.result)
			} else {
				problem(a.err)
				if err := sendSync(p, nil, a.one); err != nil {
					return err
				}
			}
		case <-time.After(sendDeadline):
			return errors.New("async sends were never answered")
		}
	}
	return nil
}

// --- receive ---

func consume() error {
	model := consumer.Clustering
	if options["model"] == "broadcast" {
		model = consumer.BroadCasting
	}
	c, err := rocketmq.NewPushConsumer(
		consumer.WithNameServer(nameServers()),
		consumer.WithGroupName(options["group"]),
		consumer.WithInstance(options["instance"]),
		consumer.WithConsumerModel(model),
		consumer.WithConsumeFromWhere(consumer.ConsumeFromFirstOffset),
	)
	if err != nil {
		return err
	}
	err = c.Subscribe(options["topic"], consumer.MessageSelector{Type: consumer.TAG, Expression: "*"},
		func(_ context.Context, messages ...*primitive.MessageExt) (consumer.ConsumeResult, error) {
			for _, m := range messages {
				received(m)
			}
			return consumer.ConsumeSuccess, nil
		})
	if err != nil {
		return err
	}
	if err = c.Start(); err != nil {
		return err
	}
	event("ready")
	wait()
	if err = c.Shutdown(); err != nil {
		return err
	}
	event("stopped")
	return nil
}

func pull() error {
	c, err := rocketmq.NewPullConsumer(
		consumer.WithNameServer(nameServers()),
		consumer.WithGroupName(options["group"]),
		consumer.WithInstance(options["instance"]),
		consumer.WithConsumeFromWhere(consumer.ConsumeFromFirstOffset),
	)
	if err != nil {
		return err
	}
	if err = c.Subscribe(options["topic"], consumer.MessageSelector{Type: consumer.TAG, Expression: "*"}); err != nil {
		return err
	}
	if err = c.Start(); err != nil {
		return err
	}
	event("ready")
	wanted, err := strconv.Atoi(options["expect"])
	if err != nil {
		return err
	}
	seconds, err := strconv.Atoi(options["seconds"])
	if err != nil {
		return err
	}
	deadline := time.Now().Add(time.Duration(seconds) * time.Second)
	for seen := 0; seen < wanted && time.Now().Before(deadline); {
		request, err := c.Poll(context.Background(), 500*time.Millisecond)
		if consumer.IsNoNewMsgError(err) {
			continue
		}
		if err != nil {
			return err
		}
		for _, m := range request.GetMsgList() {
			received(m)
			seen++
		}
		c.ACK(context.Background(), request, consumer.ConsumeSuccess)
	}
	event("done")
	wait()
	if err = c.Shutdown(); err != nil {
		return err
	}
	event("stopped")
	return nil
}

// --- events ---

// wait returns when the harness says a line, or closes the pipe.
func wait() {
	_, _ = stdin.ReadString('\n')
}

func decode(text string) []byte {
	data, err := base64.StdEncoding.DecodeString(text)
	if err != nil {
		panic(err)
	}
	return data
}

func encode(text string) string {
	return base64.StdEncoding.EncodeToString([]byte(text))
}

func line(value map[string]any) {
	data, err := json.Marshal(value)
	if err != nil {
		panic(err)
	}
	output.Lock()
	defer output.Unlock()
	os.Stdout.Write(append(data, '\n'))
}

func event(name string) {
	line(map[string]any{"ev": name})
}

func problem(err error) {
	line(map[string]any{"ev": "error", "text": encode(err.Error())})
}

func sent(one planned, result *primitive.SendResult) {
	value := map[string]any{"ev": "sent", "i": one.index}
	if result != nil {
		value["status"] = map[primitive.SendStatus]string{primitive.SendOK: "SEND_OK"}[result.Status]
		value["broker"] = result.MessageQueue.BrokerName
		value["queue"] = result.MessageQueue.QueueId
	}
	line(value)
}

func received(m *primitive.MessageExt) {
	properties := map[string]string{}
	for name, value := range m.GetProperties() {
		properties[name] = encode(value)
	}
	value := map[string]any{
		"ev": "recv", "offset": m.QueueOffset, "key": encode(m.GetKeys()), "tag": encode(m.GetTags()),
		"body": base64.StdEncoding.EncodeToString(m.Body), "props": properties,
	}
	if m.Queue != nil {
		value["broker"] = m.Queue.BrokerName
		value["queue"] = m.Queue.QueueId
	}
	line(value)
}
