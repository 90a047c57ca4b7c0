// Command schedule says how kube-scheduler would place the pods of a job, by running kube-scheduler's own code.
//
// It reads one request per line from standard input and answers each with a line; see request and answer.
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
	// Cluster holds the objects as the API server shows them: nodes, pods, namespaces, volumes, classes.
	Cluster list `json:"cluster"`
	// Gang holds Jobs and StatefulSets as a manifest has them.
	Gang      []json.RawMessage `json:"gang"`
	Namespace string            `json:"namespace"`
	// Budget is the number of states to look at before the answer is incomplete.
	Budget int `json:"budget"`
	// Explain asks for the reasons of a stuck end.
	Explain bool `json:"explain"`
	// Created asks for admission as well; without a gang, for nothing else.
	Created *created `json:"created"`
	// Validate holds objects to validate; nothing else is asked then.
	Validate []json.RawMessage `json:"validate"`
}

type list struct {
	Items []json.RawMessage `json:"items"`
}

type answer struct {
	// Verdict says which ends were seen: "fits", all pods placed; "none", some left over; "depends", both.
	Verdict string `json:"verdict"`
	// Complete: no order of pods and no choice among nodes leads to another end.
	Complete bool `json:"complete"`
	// Witness holds the placements that led to each end, pod by pod.
	Witness map[string][]placement `json:"witness"`
	// Emptied says whether all pods can be placed in the emptied cluster: "possible", "none", "unknown".
	Emptied string `json:"emptied,omitempty"`
	// Reasons hold, for pods left over and nodes, the scheduler's words.
	Reasons map[string]map[string]string `json:"reasons,omitempty"`
	// States counts the states looked at.
	States int    `json:"states"`
	Error  string `json:"error,omitempty"`
	// Admitted answers Created.
	Admitted *admitted `json:"admitted,omitempty"`
	// Validity answers Validate.
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
			// What was under way when it went wrong stays with the old one.
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

// judge explores the cluster as it is and, where no order places all pods, the emptied one.
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
