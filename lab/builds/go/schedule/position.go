package main

import "slices"

// key identifies a state by its pods and, if the order matters, by the node of each role's first pod.
func (e *exploration) key(at state) string {
	if !e.isOrdered {
		return string(at)
	}
	key, known := slices.Clone(at), make([]bool, len(e.roles))
	for _, one := range e.path {
		if !known[one.role] {
			known[one.role] = true
			key = append(key, byte(one.role), byte(one.node))
		}
	}
	return string(key)
}

// goTo puts the simulator's cluster into the state.
func (e *exploration) goTo(at state) {
	if e.isOrdered {
		e.follow()
		return
	}
	changed := !slices.Equal(e.current, at)
	for index := range at {
		for e.current[index] > at[index] && e.err == nil {
			e.err = e.take(move{index / len(e.nodes), index % len(e.nodes)})
		}
	}
	for index := range at {
		for e.current[index] < at[index] && e.err == nil {
			e.err = e.place(move{index / len(e.nodes), index % len(e.nodes)})
		}
	}
	if changed && e.err == nil {
		e.err = e.simulator.update()
	}
}

// follow takes the path to the state. If the last path is a prefix of it, follow continues there. Otherwise it starts
// from the beginning: taking back a single pod would release a volume that other pods with the same claim still use.
func (e *exploration) follow() {
	same := min(len(e.followed), len(e.path))
	if !slices.Equal(e.followed, e.path[:same]) {
		same = 0
	}
	for len(e.followed) > same && e.err == nil {
		last := len(e.followed) - 1
		e.err = e.take(e.followed[last])
		e.followed = e.followed[:last]
	}
	if e.err == nil {
		e.err = e.simulator.update()
	}
	for _, one := range e.path[same:] {
		if e.err == nil {
			e.err = e.place(one)
			e.followed = append(e.followed, one)
		}
	}
}

func (e *exploration) place(one move) error {
	pods := e.free[one.role]
	pod := pods[len(pods)-1]
	e.free[one.role] = pods[:len(pods)-1]
	e.placed[one.role][one.node] = append(e.placed[one.role][one.node], pod)
	e.current[one.role*len(e.nodes)+one.node]++
	if e.isOrdered {
		return e.simulator.placeWithVolumes(pod, e.nodes[one.node])
	}
	return e.simulator.place(pod, e.nodes[one.node])
}

func (e *exploration) take(one move) error {
	pods := e.placed[one.role][one.node]
	pod := pods[len(pods)-1]
	e.placed[one.role][one.node] = pods[:len(pods)-1]
	e.free[one.role] = append(e.free[one.role], pod)
	e.current[one.role*len(e.nodes)+one.node]--
	if e.isOrdered {
		return e.simulator.takeWithVolumes(pod, e.nodes[one.node])
	}
	return e.simulator.take(pod)
}
