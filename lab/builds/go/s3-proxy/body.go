package main

import (
	"errors"
	"io"
	"time"
)

// The maximum size of the pieces in which a body is forwarded.
const piece = 16 << 10

var errCut = errors.New("cut")

// faultyBody is a body that is slow, stalls, or is cut.
type faultyBody struct {
	io.Reader
	fault Fault
	// Closed when the client has gone away.
	gone   <-chan struct{}
	passed int
	began  time.Time
}

func (b *faultyBody) Read(buffer []byte) (int, error) {
	buffer = buffer[:min(len(buffer), piece)]
	for _, end := range []*int{b.fault.Cut, b.fault.Stall} {
		if end != nil {
			buffer = buffer[:min(len(buffer), *end-b.passed)]
		}
	}
	if len(buffer) == 0 {
		if b.fault.Stall != nil {
			<-b.gone
		}
		return 0, errCut
	}
	n, err := b.Reader.Read(buffer)
	b.passed += n
	b.slow()
	return n, err
}

// slow sleeps until the rate allows the bytes that have passed. The time is measured from the first byte, because short
// sleeps take longer than requested.
func (b *faultyBody) slow() {
	if b.fault.Rate == 0 {
		return
	}
	if b.began.IsZero() {
		b.began = time.Now()
	}
	due := time.Duration(float64(b.passed) / float64(b.fault.Rate) * float64(time.Second))
	time.Sleep(time.Until(b.began.Add(due)))
}
