package main

import (
	"fmt"

	"github.com/google/cel-go/cel"
	"github.com/google/cel-go/ext"
)

type expressions struct {
	InProgress string `json:"inProgress"`
	Failed     string `json:"failed"`
	Current    string `json:"current"`
}

// fluxHealth evaluates the expressions in Flux's order. If no expression is true, the result is InProgress. A missing
// field makes an object Unknown, and Flux keeps waiting for Unknown objects.
func fluxHealth(asked expressions, object map[string]any) (string, error) {
	for _, pair := range [][2]string{
		{"InProgress", asked.InProgress}, {"Failed", asked.Failed}, {"Current", asked.Current},
	} {
		if pair[1] == "" {
			continue
		}
		program, err := parse(pair[1])
		if err != nil {
			return "", fmt.Errorf("%s: %w", pair[0], err)
		}
		value, _, err := program.Eval(object)
		if err != nil {
			return "Unknown", nil
		}
		isTrue, ok := value.Value().(bool)
		if !ok {
			return "", fmt.Errorf("%s: %v is no boolean", pair[0], value)
		}
		if isTrue {
			return pair[0], nil
		}
	}
	return "InProgress", nil
}

// parse does not compile the expression. Flux does not either, because it cannot know a custom resource's fields.
func parse(expression string) (cel.Program, error) {
	environment, err := cel.NewEnv(
		cel.HomogeneousAggregateLiterals(), cel.EagerlyValidateDeclarations(true), cel.DefaultUTCTimeZone(true),
		cel.CrossTypeNumericComparisons(true), cel.OptionalTypes(), ext.Strings(), ext.Sets(), ext.Encoders(),
	)
	if err != nil {
		return nil, err
	}
	parsed, issues := environment.Parse(expression)
	if issues.Err() != nil {
		return nil, issues.Err()
	}
	return environment.Program(parsed, cel.EvalOptions(cel.OptOptimize))
}
