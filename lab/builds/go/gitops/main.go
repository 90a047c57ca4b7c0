// Command gitops computes which health Argo CD and Flux would report for an object, with the interpreters that they
// use.
//
// The program reads one request per line from standard input, and answers each with a line; see request and answer.
package main

import (
	"bufio"
	"encoding/json"
	"fmt"
	"os"
)

type request struct {
	// Lua is Argo CD's health check for the object's kind.
	Lua string `json:"lua"`
	// Expressions is an entry of Flux's healthCheckExprs.
	Expressions expressions    `json:"expressions"`
	Object      map[string]any `json:"object"`
}

type answer struct {
	ArgoCD  string `json:"argocd"`
	Message string `json:"message"`
	Flux    string `json:"flux"`
	Error   string `json:"error"`
}

func main() {
	lines := bufio.NewScanner(os.Stdin)
	lines.Buffer(nil, 1<<20)
	output := json.NewEncoder(os.Stdout)
	for lines.Scan() {
		var asked request
		if err := json.Unmarshal(lines.Bytes(), &asked); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(2)
		}
		if err := output.Encode(judge(asked)); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
	}
}

func judge(asked request) answer {
	var told answer
	var err error
	if told.ArgoCD, told.Message, err = argoHealth(asked.Lua, asked.Object); err != nil {
		return answer{Error: "Lua: " + err.Error()}
	}
	if told.Flux, err = fluxHealth(asked.Expressions, asked.Object); err != nil {
		return answer{Error: "CEL: " + err.Error()}
	}
	return told
}
