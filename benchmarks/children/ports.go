package children

import (
	"errors"
	"fmt"
	"net"
	"strconv"
)

// FreePorts returns n different loopback ports that were free a moment ago.
func FreePorts(n int) (ports []int, err error) {
	var open []net.Listener
	defer func() {
		for _, l := range open {
			err = errors.Join(err, l.Close())
		}
	}()
	for range n {
		l, err := net.Listen("tcp", "127.0.0.1:0")
		if err != nil {
			return nil, err
		}
		open = append(open, l)
		ports = append(ports, l.Addr().(*net.TCPAddr).Port)
	}
	return ports, nil
}

// FreeRange returns the first of n consecutive loopback ports that were free a moment ago, between 21000 and 32000, below
// what systems give to outgoing connections.
func FreeRange(n int) (first int, err error) {
	for first = 21000; first+n < 32000; first += n {
		if allFree(first, n) {
			return first, nil
		}
	}
	return 0, fmt.Errorf("no %d consecutive free ports between 21000 and 32000", n)
}

func allFree(first, n int) bool {
	for p := first; p < first+n; p++ {
		l, err := net.Listen("tcp", net.JoinHostPort("127.0.0.1", strconv.Itoa(p)))
		if err != nil {
			return false
		}
		l.Close()
	}
	return true
}
