// Command argocd is Argo CD's repository server, application controller or ApplicationSet controller, by its first
// argument. Argo CD's own program also holds its command line and web server, which take as long to compile again.
package main

import (
	"fmt"
	"os"

	"github.com/spf13/cobra"

	application "github.com/argoproj/argo-cd/v3/cmd/argocd-application-controller/commands"
	applicationset "github.com/argoproj/argo-cd/v3/cmd/argocd-applicationset-controller/commands"
	repository "github.com/argoproj/argo-cd/v3/cmd/argocd-repo-server/commands"
)

func main() {
	command := &cobra.Command{Use: "argocd"}
	command.AddCommand(repository.NewCommand(), application.NewCommand(), applicationset.NewCommand())
	if err := command.Execute(); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}
