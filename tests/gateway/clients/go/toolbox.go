package main

import (
	"encoding/json"
	"fmt"
	"strings"

	"github.com/openai/openai-go/v3"
)

// toolbox is a folder of files, a search and a job, and a list of what was run.
type toolbox struct {
	files    map[string]string
	progress int
	runs     []string
}

func newToolbox() *toolbox {
	files := map[string]string{}
	for _, name := range strings.Split("abcdefgh", "") {
		files[name+".txt"] = fmt.Sprintf("This is file %s.\nIts owner is Ada.", name)
	}
	return &toolbox{files: files, runs: []string{}}
}

func (tools *toolbox) run(name, text string) string {
	var given map[string]string
	if err := json.Unmarshal([]byte(text), &given); err != nil {
		return "Error: " + err.Error()
	}
	tools.runs = append(tools.runs, name)
	switch name {
	case "read_file":
		if file, ok := tools.files[given["path"]]; ok {
			return file
		}
		return fmt.Sprintf("There is no file %s.", given["path"])
	case "write_file":
		tools.files[given["path"]] = given["text"]
		return fmt.Sprintf("%d characters were written.", len(given["text"]))
	case "search":
		return "a.txt, b.txt"
	case "job_status":
		tools.progress += 7
		return fmt.Sprintf("Job %s: %d %% done.", given["job"], tools.progress)
	}
	return fmt.Sprintf("Error: there is no tool %s.", name)
}

func declared() []openai.ChatCompletionToolUnionParam {
	return []openai.ChatCompletionToolUnionParam{
		function("read_file", "Read a file of the project.", "path"),
		function("write_file", "Write a file of the project.", "path", "text"),
		function("search", "Search the files of the project for a text.", "query"),
		function("job_status", "Ask how far a job is.", "job"),
	}
}

func function(name, description string, arguments ...string) openai.ChatCompletionToolUnionParam {
	properties := map[string]any{}
	for _, argument := range arguments {
		properties[argument] = map[string]any{"type": "string"}
	}
	return openai.ChatCompletionFunctionTool(openai.FunctionDefinitionParam{
		Name:        name,
		Description: openai.String(description),
		Parameters: openai.FunctionParameters{
			"type": "object", "properties": properties, "required": arguments, "additionalProperties": false,
		},
	})
}
