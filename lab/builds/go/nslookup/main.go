// nslookup tells whether a name has an address, by resolv.conf's search list. training-operator's init container asks it
// for the Master; busybox's own finds the name but ends with an error when one domain of the search list lacks it.
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
