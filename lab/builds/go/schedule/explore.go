package main

import (
	"errors"
	"fmt"
	"math/rand"
	"slices"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/runtime"
)

const (
	success = "success"
	stuck   = "stuck"
	// descents is the number of schedules tried before the search. If both outcomes exist, they are likely to be found
	// early.
	descents = 9
)

// state has the number of each role's pods on each node: role by role, node by node.
type state []byte

// move places one more pod of a role on a node.
type move struct{ role, node int }

// exploration is a search over all orders of pods and all choices of nodes.
type exploration struct {
	simulator *simulator
	roles     []role
	enqueued  []bool
	nodes     []string
	// placed holds, per role and node, the pods that the simulator has placed there.
	placed  [][][]*corev1.Pod
	free    [][]*corev1.Pod
	current state
	budget  int
	moves   map[string][]move
	seen    map[string]bool
	local   map[string]bool
	isLocal bool
	// isOrdered: claims get their volumes when pods get their nodes, so the order of the pods matters, too.
	isOrdered bool
	path      []move
	// followed is the path that the simulator has taken, if the order matters.
	followed []move
	witness  map[string][]placement
	// reasons explain the outcome stuck, if explain is set.
	explain  bool
	reasons  map[string]map[string]string
	complete bool
	err      error
}

// explore finds the possible outcomes: all pods placed, or some pods left that find no node.
func explore(simulator *simulator, objects []runtime.Object, asked request) (*exploration, error) {
	if err := simulator.load(objects); err != nil {
		return nil, err
	}
	roles, err := simulator.admission.roles(asked.Gang, asked.Namespace)
	if err != nil {
		return nil, err
	}
	for _, role := range roles {
		if err := simulator.create(role.claims); err != nil {
			return nil, err
		}
	}
	e := &exploration{
		simulator: simulator, roles: roles, budget: asked.Budget,
		moves: map[string][]move{}, seen: map[string]bool{}, local: map[string]bool{},
		witness: map[string][]placement{}, complete: true, explain: asked.Explain,
	}
	for _, object := range objects {
		if node, ok := object.(*corev1.Node); ok {
			e.nodes = append(e.nodes, node.Name)
		}
	}
	slices.Sort(e.nodes)
	if err := e.prepare(); err != nil {
		return nil, err
	}
	start := make(state, len(roles)*len(e.nodes))
	random := rand.New(rand.NewSource(1))
	for number := range descents {
		e.descend(start, number, random)
	}
	e.path = nil
	e.visit(start)
	if e.err == nil {
		e.goTo(start)
	}
	return e, e.err
}

// prepare finds out which roles the scheduler tries at all, and whether only the pods on a node decide about the node.
func (e *exploration) prepare() error {
	e.isLocal = true
	for _, role := range e.roles {
		e.free = append(e.free, slices.Clone(role.pods))
		e.placed = append(e.placed, make([][]*corev1.Pod, len(e.nodes)))
		e.enqueued = append(e.enqueued, len(role.pods) > 0 && !role.refused && e.simulator.enqueued(role.pods[0]))
	}
	e.current = make(state, len(e.roles)*len(e.nodes))
	for number, role := range e.roles {
		if !e.enqueued[number] {
			continue
		}
		cycle, err := e.simulator.prefilter(role.pods[0])
		if err != nil {
			return err
		}
		e.isLocal = e.isLocal && cycle.local() && !affine(role.pods[0])
		e.isOrdered = e.isOrdered || len(e.simulator.waiting(role.pods[0])) > 0
	}
	return nil
}

// affine returns whether the pod's own rules depend on other pods, even if PreFilter finds no such pods yet.
func affine(pod *corev1.Pod) bool {
	affinity := pod.Spec.Affinity
	return len(pod.Spec.TopologySpreadConstraints) > 0 ||
		affinity != nil && (affinity.PodAffinity != nil || affinity.PodAntiAffinity != nil)
}

func (e *exploration) left(at state, role int) int {
	left := len(e.roles[role].pods)
	for node := range e.nodes {
		left -= int(at[role*len(e.nodes)+node])
	}
	return left
}

// feasible returns every way to place one more pod.
func (e *exploration) feasible(at state) []move {
	key := e.key(at)
	if known, ok := e.moves[key]; ok {
		return known
	}
	found := []move{}
	for role := range e.roles {
		if !e.enqueued[role] || e.left(at, role) == 0 {
			continue
		}
		found = append(found, e.feasibleNodes(at, role)...)
	}
	e.moves[key] = found
	return found
}

func (e *exploration) feasibleNodes(at state, role int) []move {
	found := []move{}
	var attempt *cycle
	for node := range e.nodes {
		key := ""
		if e.isLocal {
			key = e.localKey(at, role, node)
			if admits, known := e.local[key]; known {
				if admits {
					found = append(found, move{role, node})
				}
				continue
			}
		}
		if attempt == nil {
			attempt = e.attempt(at, role)
		}
		if e.err != nil {
			return nil
		}
		status, err := attempt.filter(e.nodes[node])
		if err != nil {
			e.err = err
			return nil
		}
		if e.isLocal {
			e.local[key] = status.IsSuccess()
		}
		if status.IsSuccess() {
			found = append(found, move{role, node})
		}
	}
	return found
}

func (e *exploration) attempt(at state, role int) *cycle {
	e.goTo(at)
	if e.err != nil {
		return nil
	}
	attempt, err := e.simulator.prefilter(e.free[role][0])
	if err != nil {
		e.err = err
	}
	return attempt
}

// localKey identifies the pods on a node. If isLocal, only these decide whether the node accepts a pod of the role.
func (e *exploration) localKey(at state, role, node int) string {
	key := []byte{byte(role), byte(node)}
	for other := range e.roles {
		key = append(key, at[other*len(e.nodes)+node])
	}
	return string(key)
}

// descend follows one schedule to its end. The schedule is the scheduler's own choice, packed or spread with the roles
// in order or in reverse order, or random.
func (e *exploration) descend(start state, number int, random *rand.Rand) {
	at := slices.Clone(start)
	e.path = nil
	for e.err == nil && !e.both() {
		moves := e.feasible(at)
		if len(moves) == 0 {
			e.end(at)
			return
		}
		chosen := e.choose(at, moves, number, random)
		e.path = append(e.path, chosen)
		at[chosen.role*len(e.nodes)+chosen.node]++
	}
}

func (e *exploration) choose(at state, moves []move, number int, random *rand.Rand) move {
	switch {
	case number == 0:
		return e.scored(at, moves)
	case number <= 2:
		return e.extreme(at, moves[0].role, moves, number == 1)
	case number <= 4:
		return e.extreme(at, moves[len(moves)-1].role, moves, number == 3)
	}
	return moves[random.Intn(len(moves))]
}

// scored returns the move that the scheduler itself chooses, which must be one of the moves.
func (e *exploration) scored(at state, moves []move) move {
	role := moves[0].role
	e.goTo(at)
	if e.err != nil {
		return moves[0]
	}
	node, err := e.simulator.choose(e.free[role][0])
	if err != nil {
		e.err = err
		return moves[0]
	}
	chosen := move{role, slices.Index(e.nodes, node)}
	if !slices.Contains(moves, chosen) {
		e.err = fmt.Errorf("the scheduler puts %s on %s, which its filters refuse", e.free[role][0].Name, node)
	}
	return chosen
}

// extreme returns the move of the role to the node with the most or the fewest pods of the gang.
func (e *exploration) extreme(at state, role int, moves []move, packed bool) move {
	best, most := -1, 0
	for number, one := range moves {
		pods := 0
		for other := range e.roles {
			pods += int(at[other*len(e.nodes)+one.node])
		}
		if !packed {
			pods = -pods
		}
		if one.role == role && (best < 0 || pods > most) {
			best, most = number, pods
		}
	}
	return moves[best]
}

// visit searches all states that can follow, until both outcomes were found or the budget is used up.
func (e *exploration) visit(at state) {
	key := e.key(at)
	if e.err != nil || e.both() || e.seen[key] {
		return
	}
	if len(e.seen) >= e.budget {
		e.complete = false
		return
	}
	e.seen[key] = true
	moves := e.feasible(at)
	if len(moves) == 0 {
		e.end(at)
	}
	for _, one := range moves {
		index := one.role*len(e.nodes) + one.node
		at[index]++
		e.path = append(e.path, one)
		e.visit(at)
		e.path = e.path[:len(e.path)-1]
		at[index]--
	}
}

func (e *exploration) both() bool { return len(e.witness) == 2 }

// end records the outcome of the schedule.
func (e *exploration) end(at state) {
	if e.err != nil {
		return
	}
	name := success
	for role := range e.roles {
		if e.left(at, role) > 0 {
			name = stuck
		}
	}
	if _, known := e.witness[name]; known {
		return
	}
	told := []placement{}
	numbers := make([]int, len(e.roles))
	for _, one := range e.path {
		told = append(told, placement{e.roles[one.role].pods[numbers[one.role]].Name, e.nodes[one.node]})
		numbers[one.role]++
	}
	e.witness[name] = told
	if name == stuck && e.explain {
		e.reasons = map[string]map[string]string{}
		for role := range e.roles {
			e.err = errors.Join(e.err, e.reason(at, role))
		}
	}
}

// reason records why the nodes accept no more pods of the role.
func (e *exploration) reason(at state, role int) error {
	if !e.enqueued[role] || e.left(at, role) == 0 {
		return nil
	}
	attempt := e.attempt(at, role)
	if e.err != nil {
		return nil
	}
	words := map[string]string{}
	for _, node := range e.nodes {
		status, err := attempt.filter(node)
		if err != nil {
			return err
		}
		words[node] = status.Message()
	}
	e.reasons[attempt.pod.Name] = words
	return nil
}

func (e *exploration) verdict() string {
	_, placed := e.witness[success]
	_, left := e.witness[stuck]
	switch {
	case placed && left:
		return "depends"
	case placed:
		return "fits"
	default:
		return "none"
	}
}

func (e *exploration) possible() string {
	if _, placed := e.witness[success]; placed {
		return "possible"
	}
	if !e.complete {
		return "unknown"
	}
	return "none"
}
