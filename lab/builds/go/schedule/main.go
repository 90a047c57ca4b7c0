// Command schedule finds out how kube-scheduler would place the pods of a job, by running kube-scheduler's own code.
//
// The program reads one request per line from standard input, and answers each with a line; see request and answer.
package main

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"os"

	"github.com/go-logr/logr"
	"k8s.io/klog/v2"
)

type request struct {
	// Cluster contains the cluster's objects as the API server returns them: nodes, pods, namespaces, volumes, classes.
	Cluster list `json:"cluster"`
	// Gang contains Jobs and StatefulSets as in a manifest.
	Gang      []json.RawMessage `json:"gang"`
	Namespace string            `json:"namespace"`
	// Budget is the maximum number of states to search. With more states, the answer is incomplete.
	Budget int `json:"budget"`
	// Explain requests the reasons for the outcome stuck.
	Explain bool `json:"explain"`
	// Created requests admission, too. Without a gang, only admission is computed.
	Created *created `json:"created"`
	// Validate contains objects to validate. Then everything else in the request is ignored.
	Validate []json.RawMessage `json:"validate"`
}

type list struct {
	Items []json.RawMessage `json:"items"`
}

type answer struct {
	// Verdict names the outcomes found: "fits", all pods placed; "none", some pods left; "depends", both outcomes.
	Verdict string `json:"verdict"`
	// Complete: no other order of pods and choice of nodes leads to another outcome.
	Complete bool `json:"complete"`
	// Witness contains, for each outcome, the placements that led to it, pod by pod.
	Witness map[string][]placement `json:"witness"`
	// Emptied says whether all pods can be placed in the emptied cluster: "possible", "none", "unknown".
	Emptied string `json:"emptied,omitempty"`
	// Reasons contains the scheduler's messages: pod that was not placed -> node -> message.
	Reasons map[string]map[string]string `json:"reasons,omitempty"`
	// States is the number of searched states.
	States int    `json:"states"`
	Error  string `json:"error,omitempty"`
	// Admitted is the answer to Created.
	Admitted *admitted `json:"admitted,omitempty"`
	// Validity is the answer to Validate.
	Validity []validity `json:"validity,omitempty"`
}

type placement struct {
	Pod  string `json:"pod"`
	Node string `json:"node"`
}

func main() {
	klog.SetLogger(logr.Discard())
	simulator, err := newSimulator(context.Background())
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	lines := bufio.NewScanner(os.Stdin)
	lines.Buffer(nil, 1<<26)
	output := json.NewEncoder(os.Stdout)
	for lines.Scan() {
		var asked request
		if err := json.Unmarshal(lines.Bytes(), &asked); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(2)
		}
		told, err := judge(simulator, asked)
		if err != nil {
			told = answer{Error: err.Error()}
			// After an error, use a new simulator: the old one may contain a half-finished change.
			if simulator, err = newSimulator(context.Background()); err != nil {
				fmt.Fprintln(os.Stderr, err)
				os.Exit(1)
			}
		}
		if err := output.Encode(told); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
	}
}

// judge explores the cluster as it is. If no order places all pods, judge also explores the emptied cluster.
func judge(simulator *simulator, asked request) (answer, error) {
	if len(asked.Validate) > 0 {
		found, err := validate(asked.Validate)
		return answer{Validity: found}, err
	}
	var said *admitted
	if asked.Created != nil {
		var err error
		if said, err = admit(*asked.Created); err != nil || len(asked.Gang) == 0 {
			return answer{Admitted: said}, err
		}
	}
	objects, err := parse(asked.Cluster.Items)
	if err != nil {
		return answer{}, err
	}
	found, err := explore(simulator, objects, asked)
	if err != nil {
		return answer{}, err
	}
	told := answer{
		Verdict: found.verdict(), Complete: found.complete, Witness: found.witness, States: len(found.seen),
		Reasons: found.reasons, Admitted: said,
	}
	if _, success := found.witness[success]; success {
		return told, nil
	}
	emptied, err := explore(simulator, emptied(objects), asked)
	if err != nil {
		return answer{}, err
	}
	told.Emptied = emptied.possible()
	return told, nil
}
