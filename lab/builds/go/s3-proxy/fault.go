package main

import (
	"encoding/json"
	"net/http"
	"regexp"
	"sync"
	"time"
)

// Fault describes faults for requests. A missing field means no such fault.
type Fault struct {
	// Only requests with this method, and whose path matches this regular expression.
	Method, Path string
	// Every n-th of these requests, at most Times requests, and only for Seconds. 0 means every request, and no limit.
	Every, Times int
	Seconds      float64

	// Seconds to wait before the request is forwarded.
	Delay float64
	// Bytes per second of a body, in each direction, for each connection.
	Rate int
	// Reset: the connection is reset before the request is forwarded. Lose: it is reset instead of sending the answer.
	Reset, Lose bool
	// The answer has this HTTP status and this S3 error code.
	Status int
	Code   string
	// The number of bytes after which a body is cut or stalls: a GET's answer or a PUT's request.
	Cut, Stall *int
	// Answers get an ETag that no object has.
	WrongETag bool
}

// faults is the current fault, the number of requests that it matched, and the number of requests that got the fault.
type faults struct {
	mutex          sync.Mutex
	now            Fault
	path           *regexp.Regexp
	until          time.Time
	asked, faulted int
}

// of returns the fault for a request.
func (f *faults) of(r *http.Request) Fault {
	f.mutex.Lock()
	defer f.mutex.Unlock()
	isOver := !f.until.IsZero() && time.Now().After(f.until)
	isOther := f.now.Method != "" && f.now.Method != r.Method
	if f.path == nil || isOver || isOther || !f.path.MatchString(r.URL.RequestURI()) {
		return Fault{}
	}
	f.asked++
	if f.asked%max(1, f.now.Every) != 0 || f.now.Times > 0 && f.faulted == f.now.Times {
		return Fault{}
	}
	f.faulted++
	return f.now
}

// ServeHTTP serves the control address. PUT sets a Fault; {} means none. PUT and GET return the counts since the last
// PUT.
func (f *faults) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	f.mutex.Lock()
	defer f.mutex.Unlock()
	if r.Method == http.MethodPut {
		if err := f.set(r); err != nil {
			http.Error(w, err.Error(), http.StatusBadRequest)
			return
		}
	}
	_ = json.NewEncoder(w).Encode(map[string]int{"asked": f.asked, "faulted": f.faulted})
}

func (f *faults) set(r *http.Request) error {
	var fault Fault
	decoder := json.NewDecoder(r.Body)
	decoder.DisallowUnknownFields()
	if err := decoder.Decode(&fault); err != nil {
		return err
	}
	path, err := regexp.Compile(fault.Path)
	if err != nil {
		return err
	}
	f.now, f.path, f.until, f.asked, f.faulted = fault, path, time.Time{}, 0, 0
	if fault.Seconds > 0 {
		f.until = time.Now().Add(time.Duration(fault.Seconds * float64(time.Second)))
	}
	return nil
}
