package extproc

import "fmt"

// Framing says how a request body is cut into messages.
type Framing string

const (
	// HTTP1 is what Envoy sends of an HTTP/1.1 client: what a read returned, which is all of a small body and 4 KiB to
	// 1 MiB of a large one, and after the last byte an empty message with end_of_stream.
	HTTP1 Framing = "http1"
	// HTTP2 is what Envoy sends of an HTTP/2 client: one message per DATA frame of 16 KiB, the last with end_of_stream.
	HTTP2 Framing = "http2"
)

const (
	readMax   = 1 << 20 // Envoy's default buffer limit of a listener
	dataFrame = 16 << 10
)

// check returns an error for an unknown framing.
func (f Framing) check() error {
	if f != HTTP1 && f != HTTP2 {
		return fmt.Errorf("framing is %q; one of http1, http2", f)
	}
	return nil
}

// frames appends to dst the lengths of the messages that carry a body of n bytes. A last length of 0 is an empty message;
// the last message always carries end_of_stream. HTTP/1.1 reads differ from request to request: the number chooses among
// what was seen on the wire (all at once; 4 and 32 KiB first; 96 KiB first).
func (f Framing) frames(dst []int, number uint64, n int) []int {
	if f == HTTP2 {
		for n > dataFrame {
			dst, n = append(dst, dataFrame), n-dataFrame
		}
		return append(dst, n)
	}
	var first []int
	switch number % 3 {
	case 1:
		first = []int{4 << 10, 32 << 10}
	case 2:
		first = []int{96 << 10}
	}
	for _, size := range first {
		if n > size {
			dst, n = append(dst, size), n-size
		}
	}
	for n > 0 {
		size := min(n, readMax)
		dst, n = append(dst, size), n-size
	}
	return append(dst, 0)
}
