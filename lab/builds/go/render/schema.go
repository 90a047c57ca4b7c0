package main

import (
	"bytes"
	"fmt"
	"strings"

	"github.com/santhosh-tekuri/jsonschema/v6"
)

const schemaURL = "file:///values.schema.json"

// schema is a chart's compiled schema. Helm would compile it for every rendering, which takes half of the rendering's
// time.
type schema struct {
	chart    string
	compiled *jsonschema.Schema
}

// compiled maps schema texts to compiled schemas. Many charts named in requests have equal schemas.
var compiled = map[string]*jsonschema.Schema{}

func compileSchema(chart string, text []byte) (schema, error) {
	if known, found := compiled[string(text)]; found || len(text) == 0 {
		return schema{chart, known}, nil
	}
	parsed, err := jsonschema.UnmarshalJSON(bytes.NewReader(text))
	if err != nil {
		return schema{}, err
	}
	compiler := jsonschema.NewCompiler()
	if err := compiler.AddResource(schemaURL, parsed); err != nil {
		return schema{}, err
	}
	made, err := compiler.Compile(schemaURL)
	if err == nil {
		compiled[string(text)] = made
	}
	return schema{chart, made}, err
}

// check validates values, which include the chart's defaults, and returns an error with the same text as both Helms.
func (schema schema) check(values map[string]any) error {
	if schema.compiled == nil {
		return nil
	}
	err := schema.compiled.Validate(values)
	if err == nil {
		return nil
	}
	words := strings.TrimPrefix(err.Error(), fmt.Sprintf("jsonschema validation failed with '%s#'\n", schemaURL))
	const intro = "values don't meet the specifications of the schema(s) in the following chart(s):"
	return fmt.Errorf("%s\n%s:\n%s\n", intro, schema.chart, words)
}
