package main

import (
	"errors"
	"io"
	"time"
)

// A body is passed on in pieces of this size at most.
const piece = 16 << 10

var errCut = errors.New("cut")

// faultyBody is a body that is slow, stands still, or is cut.
type faultyBody struct {
	io.Reader
	fault Fault
	// Closed when nobody reads any more.
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

// slow waits until so many bytes may have passed. By the time since the first, as a short sleep takes longer.
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
