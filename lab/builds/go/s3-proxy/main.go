// s3-proxy is a proxy in front of an S3 server that injects faults of networks and busy servers: delays, cuts, stalls,
// refusals. A Fault is set as JSON through the control address. The proxy forwards the Host header, because S3
// signatures include the host name.
package main

import (
	"flag"
	"fmt"
	"io"
	"log"
	"net"
	"net/http"
	"time"
)

type proxy struct {
	upstream  string
	transport *http.Transport
	faults    *faults
}

func main() {
	listen := flag.String("listen", "127.0.0.1:7070", "host:port that clients ask")
	control := flag.String("control", "127.0.0.1:7071", "host:port that takes faults")
	upstream := flag.String("upstream", "http://127.0.0.1:7072", "URL of the S3 server")
	flag.Parse()
	p := &proxy{*upstream, &http.Transport{DisableCompression: true, MaxIdleConnsPerHost: 256}, &faults{}}
	go func() { log.Fatal(http.ListenAndServe(*control, p.faults)) }()
	log.Fatal(http.ListenAndServe(*listen, p))
}

func (p *proxy) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	fault := p.faults.of(r)
	time.Sleep(time.Duration(fault.Delay * float64(time.Second)))
	if fault.Reset {
		reset(w)
	} else if fault.Status != 0 {
		refuse(w, fault)
	} else {
		p.pass(w, r, fault)
	}
}

// pass forwards the request to the server, and the answer to the client.
func (p *proxy) pass(w http.ResponseWriter, r *http.Request, fault Fault) {
	body := &faultyBody{Reader: r.Body, fault: fault, gone: r.Context().Done()}
	if r.Method != http.MethodPut && r.Method != http.MethodPost {
		body.fault = Fault{}
	}
	asked, err := http.NewRequestWithContext(r.Context(), r.Method, p.upstream+r.URL.RequestURI(), body)
	if err != nil {
		reset(w)
		return
	}
	asked.Header, asked.Host, asked.ContentLength = r.Header.Clone(), r.Host, r.ContentLength
	asked.Header.Del("Expect")
	if r.ContentLength == 0 {
		asked.Body = http.NoBody
	}
	answer, err := p.transport.RoundTrip(asked)
	if err != nil {
		reset(w)
		return
	}
	defer answer.Body.Close()
	if fault.Lose {
		reset(w)
		return
	}
	p.answer(w, r, answer, fault)
}

func (p *proxy) answer(w http.ResponseWriter, r *http.Request, answer *http.Response, fault Fault) {
	for name, values := range answer.Header {
		w.Header()[name] = values
	}
	if fault.WrongETag && answer.Header.Get("ETag") != "" {
		w.Header().Set("ETag", `"00000000000000000000000000000000"`)
	}
	w.WriteHeader(answer.StatusCode)
	body := &faultyBody{Reader: answer.Body, fault: fault, gone: r.Context().Done()}
	if r.Method != http.MethodGet {
		body.fault.Cut, body.fault.Stall = nil, nil
	}
	// Flush each piece, so that the client has everything that came before a stall.
	if _, err := io.CopyBuffer(flushed{w}, body, make([]byte, piece)); err != nil {
		panic(http.ErrAbortHandler)
	}
}

// flushed flushes each write. It hides the writer's ReadFrom, which would read ahead.
type flushed struct{ http.ResponseWriter }

func (f flushed) Write(content []byte) (int, error) {
	n, err := f.ResponseWriter.Write(content)
	f.ResponseWriter.(http.Flusher).Flush()
	return n, err
}

func refuse(w http.ResponseWriter, fault Fault) {
	w.Header().Set("Content-Type", "application/xml")
	w.WriteHeader(fault.Status)
	fmt.Fprintf(w, "<Error><Code>%s</Code><Message>as the fault says</Message></Error>", fault.Code)
}

// reset ends the connection with a TCP reset.
func reset(w http.ResponseWriter) {
	connection, _, err := w.(http.Hijacker).Hijack()
	if err != nil {
		panic(http.ErrAbortHandler)
	}
	if tcp, ok := connection.(*net.TCPConn); ok {
		_ = tcp.SetLinger(0)
	}
	connection.Close()
}
