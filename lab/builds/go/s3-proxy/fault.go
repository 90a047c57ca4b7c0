package main

import (
	"encoding/json"
	"net/http"
	"regexp"
	"sync"
	"time"
)

// Fault is what happens to requests. Without a field nothing of its kind does.
type Fault struct {
	// Which requests: those of a method, and whose path the expression is found in.
	Method, Path string
	// Each n-th of them, so many, and for so many seconds; 0 is each, and without an end.
	Every, Times int
	Seconds      float64

	// Before the request is passed on, in seconds.
	Delay float64
	// Bytes per second of a body, each way, for each connection.
	Rate int
	// The connection is reset before the request is passed on, or after it in the answer's place.
	Reset, Lose bool
	// The answer is this status, with this code of S3's.
	Status int
	Code   string
	// The body is cut, or stands still, after so many bytes: the answer's of a GET, the request's of a PUT.
	Cut, Stall *int
	// Answers have a tag that no object has.
	WrongETag bool
}

// faults is what happens now, how many requests it is meant for, and to how many of them it has happened.
type faults struct {
	mutex          sync.Mutex
	now            Fault
	path           *regexp.Regexp
	until          time.Time
	asked, faulted int
}

// of returns what happens to a request.
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

// ServeHTTP is the control: PUT takes a Fault, {} for none; both tell of the requests since the last PUT.
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
