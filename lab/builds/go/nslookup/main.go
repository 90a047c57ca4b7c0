// nslookup prints a name's address, using the search list of resolv.conf. training-operator's init container calls
// nslookup for the Master's name. busybox's nslookup finds the name, but exits with an error if one domain of the
// search list lacks the name.
package main

import (
	"fmt"
	"net"
	"os"
)

func main() {
	addresses, err := net.LookupHost(os.Args[1])
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	fmt.Println(addresses)
}
