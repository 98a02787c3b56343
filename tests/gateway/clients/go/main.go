// Agents over openai-go, as its documentation writes them. They know nothing of the guard.
//
//	agent URL[,URL...] < jobs
//
// Each line is a job: {"agent": "openai.chat", "stream": false, "question": "...", "headers": {}}. Four run at once, and
// each prints a line of JSON when it ends. The requests of one conversation go to the addresses in turn.
package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"os"
	"strings"
	"sync"

	"github.com/openai/openai-go/v3"
	"github.com/openai/openai-go/v3/option"
)

const atOnce = 4

type job struct {
	Agent    string            `json:"agent"`
	Stream   bool              `json:"stream"`
	Question string            `json:"question"`
	Headers  map[string]string `json:"headers"`
}

type outcome struct {
	job
	Requests int      `json:"requests"`
	Runs     []string `json:"runs"`
	Answer   string   `json:"answer"`
	Error    *failure `json:"error"`
}

// The error as the program sees it.
type failure struct {
	Kind    string `json:"kind"`
	Status  int    `json:"status"`
	Type    string `json:"type"`
	Message string `json:"message"`
	Body    string `json:"body"`
}

func main() {
	addresses := strings.Split(os.Args[1], ",")
	jobs, lines := json.NewDecoder(os.Stdin), json.NewEncoder(os.Stdout)
	var running sync.WaitGroup
	var printing sync.Mutex
	places := make(chan struct{}, atOnce)
	for jobs.More() {
		var next job
		check(jobs.Decode(&next))
		running.Go(func() {
			places <- struct{}{}
			ended := converse(addresses, next)
			<-places
			printing.Lock()
			defer printing.Unlock()
			check(lines.Encode(ended))
		})
	}
	running.Wait()
}

func check(err error) {
	if err != nil {
		panic(err)
	}
}

// converse asks until the model answers without a call.
func converse(addresses []string, given job) outcome {
	tools := newToolbox()
	ended := outcome{job: given}
	options := []option.RequestOption{
		option.WithBaseURL(addresses[0] + "/v1/"),
		option.WithAPIKey("sk-local"),
		option.WithHTTPClient(&http.Client{Transport: inTurn{&ended.Requests, addresses}}),
	}
	for name, value := range given.Headers {
		options = append(options, option.WithHeader(name, value))
	}
	client := openai.NewClient(options...)
	params := openai.ChatCompletionNewParams{
		Model: "gpt-4.1",
		Tools: declared(),
		Messages: []openai.ChatCompletionMessageParamUnion{
			openai.SystemMessage("You work with the files of a project."),
			openai.UserMessage(given.Question),
		},
	}
	ask := plain
	if given.Stream {
		ask = streamed
	}
	for {
		message, err := ask(client, params)
		if err != nil {
			ended.Error = described(err)
			break
		}
		if len(message.ToolCalls) == 0 {
			ended.Answer = message.Content
			break
		}
		params.Messages = append(params.Messages, message.ToParam())
		for _, call := range message.ToolCalls {
			result := tools.run(call.Function.Name, call.Function.Arguments)
			params.Messages = append(params.Messages, openai.ToolMessage(result, call.ID))
		}
	}
	ended.Runs = tools.runs
	return ended
}

func plain(client openai.Client, params openai.ChatCompletionNewParams) (openai.ChatCompletionMessage, error) {
	completion, err := client.Chat.Completions.New(context.Background(), params)
	if err != nil {
		return openai.ChatCompletionMessage{}, err
	}
	return completion.Choices[0].Message, nil
}

func streamed(client openai.Client, params openai.ChatCompletionNewParams) (openai.ChatCompletionMessage, error) {
	stream := client.Chat.Completions.NewStreaming(context.Background(), params)
	defer stream.Close()
	whole := openai.ChatCompletionAccumulator{}
	for stream.Next() {
		whole.AddChunk(stream.Current())
	}
	if err := stream.Err(); err != nil {
		return openai.ChatCompletionMessage{}, err
	}
	if len(whole.Choices) == 0 {
		return openai.ChatCompletionMessage{}, errors.New("the stream was empty")
	}
	return whole.Choices[0].Message, nil
}

func described(err error) *failure {
	var refused *openai.Error
	if errors.As(err, &refused) {
		return &failure{fmt.Sprintf("%T", refused), refused.StatusCode, refused.Type, refused.Message, refused.RawJSON()}
	}
	return &failure{Kind: fmt.Sprintf("%T", err), Message: err.Error()}
}

// inTurn counts the requests that leave, also those that the client sends again, and sends each to the next address.
type inTurn struct {
	requests  *int
	addresses []string
}

func (each inTurn) RoundTrip(request *http.Request) (*http.Response, error) {
	*each.requests++
	address, err := url.Parse(each.addresses[*each.requests%len(each.addresses)])
	if err != nil {
		return nil, err
	}
	sent := request.Clone(request.Context())
	sent.URL.Host, sent.Host = address.Host, address.Host
	return http.DefaultTransport.RoundTrip(sent)
}
