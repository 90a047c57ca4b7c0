package main

import (
	"bytes"
	"os"

	"github.com/spf13/pflag"
	values3 "helm.sh/helm/v3/pkg/cli/values"
	getter3 "helm.sh/helm/v3/pkg/getter"
	loader4 "helm.sh/helm/v4/pkg/chart/v2/loader"
	values4 "helm.sh/helm/v4/pkg/cli/values"
	getter4 "helm.sh/helm/v4/pkg/getter"
	"sigs.k8s.io/yaml"
)

// valueOptions are the command-line flags for values that both Helms accept.
type valueOptions struct {
	files, json, set, setString, setFile, setLiteral []string
}

// parse parses a request's arguments, which are those after `helm template RELEASE CHART`, and enters the request's
// folder.
func (asked *request) parse() error {
	if asked.Folder != "" {
		if err := os.Chdir(asked.Folder); err != nil {
			return err
		}
	}
	if asked.Arguments == nil {
		return nil
	}
	asked.options = &valueOptions{}
	flags := pflag.NewFlagSet("template", pflag.ContinueOnError)
	flags.StringSliceVarP(&asked.options.files, "values", "f", nil, "")
	flags.StringArrayVar(&asked.options.json, "set-json", nil, "")
	flags.StringArrayVar(&asked.options.set, "set", nil, "")
	flags.StringArrayVar(&asked.options.setString, "set-string", nil, "")
	flags.StringArrayVar(&asked.options.setFile, "set-file", nil, "")
	flags.StringArrayVar(&asked.options.setLiteral, "set-literal", nil, "")
	flags.BoolVar(&asked.skipSchema, "skip-schema-validation", false, "")
	flags.StringSliceVarP(&asked.APIVersions, "api-versions", "a", asked.APIVersions, "")
	flags.StringVar(&asked.KubeVersion, "kube-version", asked.KubeVersion, "")
	flags.StringVarP(&asked.Namespace, "namespace", "n", asked.Namespace, "")
	return flags.Parse(asked.Arguments)
}

func (asked request) values3() (map[string]interface{}, error) {
	if given := asked.options; given != nil {
		options := values3.Options{
			ValueFiles: given.files, JSONValues: given.json, Values: given.set, StringValues: given.setString,
			FileValues: given.setFile, LiteralValues: given.setLiteral,
		}
		return options.MergeValues(getter3.Providers{})
	}
	values := map[string]interface{}{}
	return values, yaml.Unmarshal(asked.Values, &values)
}

func (asked request) values4() (map[string]interface{}, error) {
	if given := asked.options; given != nil {
		options := values4.Options{
			ValueFiles: given.files, JSONValues: given.json, Values: given.set, StringValues: given.setString,
			FileValues: given.setFile, LiteralValues: given.setLiteral,
		}
		return options.MergeValues(getter4.Providers{})
	}
	return loader4.LoadValues(bytes.NewReader(asked.Values))
}
