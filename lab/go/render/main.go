// Render renders one chart many times, with Helm 3 and with Helm 4, as `helm template` does, and judges pods by the Pod
// Security Standards. One process for thousands of renderings: starting Helm anew costs more than most of them.
//
// Usage: render CHART. Each line of the input is a request, each line of the output its answer, in the same order:
//
//	{"id": "a", "values": {...}, "release": "run1", "namespace": "default", "apiVersions": [...], "kubeVersion": "1.34",
//	 "helms": ["helm3", "helm4"]}
//	{"id": "a", "helm3": {"manifest": "...", "notes": "..."}, "helm4": {"error": "..."}}
//
//	{"id": "b", "pods": [{"level": "restricted", "metadata": {...}, "spec": {...}}]}
//	{"id": "b", "pods": [["privileged (container \"a\" must not ...)"]]}
package main

import (
	"bufio"
	"encoding/json"
	"fmt"
	"io"
	"log"
	"os"
	"runtime"
)

type request struct {
	ID          string          `json:"id"`
	Values      json.RawMessage `json:"values"`
	Release     string          `json:"release"`
	Namespace   string          `json:"namespace"`
	APIVersions []string        `json:"apiVersions"`
	KubeVersion string          `json:"kubeVersion"`
	Helms       []string        `json:"helms"`
	Pods        []pod           `json:"pods"`
}

type answer struct {
	ID    string     `json:"id"`
	Helm3 *rendered  `json:"helm3,omitempty"`
	Helm4 *rendered  `json:"helm4,omitempty"`
	Pods  [][]string `json:"pods,omitempty"`
}

// rendered is what Helm prints: the manifest, as on its standard output, or the error, as after "Error: ".
type rendered struct {
	Manifest string `json:"manifest,omitempty"`
	Notes    string `json:"notes,omitempty"`
	Error    string `json:"error,omitempty"`
}

type renderer interface {
	render(request) (manifest, notes string, err error)
}

// task is a request and the place for its answer.
type task struct {
	asked request
	given chan answer
}

func main() {
	// What Helm would warn of, such as a table in the place of a value, stands in its error too.
	log.SetOutput(io.Discard)
	if err := serve(os.Args[1]); err != nil {
		fmt.Fprintln(os.Stderr, "render:", err)
		os.Exit(1)
	}
}

// serve lets every processor work, and answers in the order of the requests.
func serve(chart string) error {
	tasks, ordered := make(chan task), make(chan task, 64)
	for range runtime.GOMAXPROCS(0) {
		// Charts of its own: Helm does not promise that renderings may share one.
		three, err := loadHelm3(chart)
		if err != nil {
			return err
		}
		four, err := loadHelm4(chart)
		if err != nil {
			return err
		}
		go func() {
			for next := range tasks {
				next.given <- respond(next.asked, three, four)
			}
		}()
	}
	failed := make(chan error, 1)
	go func() { failed <- read(tasks, ordered) }()
	out := bufio.NewWriter(os.Stdout)
	answers := json.NewEncoder(out)
	for next := range ordered {
		if err := answers.Encode(<-next.given); err != nil {
			return err
		}
	}
	if err := out.Flush(); err != nil {
		return err
	}
	return <-failed
}

func read(tasks, ordered chan<- task) error {
	defer close(tasks)
	defer close(ordered)
	for in := json.NewDecoder(bufio.NewReader(os.Stdin)); in.More(); {
		next := task{given: make(chan answer, 1)}
		if err := in.Decode(&next.asked); err != nil {
			return err
		}
		ordered <- next
		tasks <- next
	}
	return nil
}

func respond(asked request, three, four renderer) answer {
	given := answer{ID: asked.ID}
	if asked.Pods != nil {
		given.Pods = judge(asked.Pods)
	}
	for _, name := range asked.Helms {
		switch name {
		case "helm3":
			given.Helm3 = try(three, asked)
		case "helm4":
			given.Helm4 = try(four, asked)
		}
	}
	return given
}

func try(helm renderer, asked request) *rendered {
	manifest, notes, err := helm.render(asked)
	if err != nil {
		return &rendered{Error: err.Error()}
	}
	return &rendered{Manifest: manifest, Notes: notes}
}
