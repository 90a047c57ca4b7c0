// Command registry is the distribution project's OCI registry with only the parts that tests need: files on disk, and a
// login.
//
//	registry serve CONFIG     serve, as the project's own program does
//	registry hash <PASSWORD   print the hash of a password for the file of logins
package main

import (
	"fmt"
	"io"
	"os"

	"github.com/distribution/distribution/v3/registry"
	_ "github.com/distribution/distribution/v3/registry/auth/htpasswd"
	_ "github.com/distribution/distribution/v3/registry/storage/driver/filesystem"
	"github.com/spf13/cobra"
	"golang.org/x/crypto/bcrypt"
)

func main() {
	registry.RootCmd.AddCommand(&cobra.Command{Use: "hash", RunE: hash})
	if err := registry.RootCmd.Execute(); err != nil {
		os.Exit(1)
	}
}

func hash(*cobra.Command, []string) error {
	password, err := io.ReadAll(os.Stdin)
	if err != nil {
		return err
	}
	hashed, err := bcrypt.GenerateFromPassword(password, bcrypt.MinCost)
	fmt.Println(string(hashed))
	return err
}
