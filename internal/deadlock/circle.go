package deadlock

import (
	"fmt"
	"slices"
	"strings"
)

// Step is one wait of a circle.
type Step struct {
	Said *Said // of its client
	Wait *Wait
	Has  *Hold // what the step before waits for; of the first step: what the last one does
}

// Circle is a circle of waits: each waits for what the next one has, the last one for what the first one
// has.
type Circle []Step

// excludes reports whether a wait cannot end while the hold lasts. Kinds are not compared: those that
// share a name exclude each other, too.
func excludes(h *Hold, w *Wait) bool {
	return h.Name == w.Name && h.Several == w.Several && !(h.Reading && w.Reading) && h.Owner != w.Owner
}

// at is a name as an index has it.
type at struct {
	name    string
	several int
}

// Graph is what clients say at about one time.
type Graph struct {
	steps []Step // without Has
	holds map[at][]held
}

// held is who has something with that name.
type held struct {
	step int
	hold *Hold
}

// NewGraph makes it. What a client says is not copied.
func NewGraph(all ...*Said) *Graph {
	g := &Graph{holds: make(map[at][]held)}
	for _, s := range all {
		for i := range s.Waits {
			w := &s.Waits[i]
			for j := range w.Holds {
				h := &w.Holds[j]
				key := at{h.Name, h.Several}
				g.holds[key] = append(g.holds[key], held{len(g.steps), h})
			}
			g.steps = append(g.steps, Step{Said: s, Wait: w})
		}
	}
	return g
}

// Circles returns circles, each once, so that every wait of a client is in one of them that is in any; of
// all clients if that is empty. Each begins with the wait for which it was found, and is as short as one
// with that wait can be.
func (g *Graph) Circles(client string) (all []Circle) {
	known, in := map[string]bool{}, map[*Wait]bool{}
	for i, s := range g.steps {
		if client != "" && s.Said.Client != client || in[s.Wait] {
			continue
		}
		c := g.through(i)
		if c == nil {
			continue
		}
		for _, step := range c {
			in[step.Wait] = true
		}
		if key := c.key(); !known[key] {
			known[key] = true
			all = append(all, c)
		}
	}
	return all
}

// through looks for a shortest circle through one wait, breadth first; nil if it is in none.
func (g *Graph) through(start int) Circle {
	type came struct {
		from int
		has  *Hold
	}
	back := map[int]came{}
	for todo := []int{start}; len(todo) > 0; todo = todo[1:] {
		at := todo[0]
		for _, next := range g.next(at) {
			if next.step == start {
				c := Circle{{g.steps[start].Said, g.steps[start].Wait, next.hold}}
				for i := at; i != start; i = back[i].from {
					c = slices.Insert(c, 1, Step{g.steps[i].Said, g.steps[i].Wait, back[i].has})
				}
				return c
			}
			if _, seen := back[next.step]; !seen {
				back[next.step] = came{at, next.hold}
				todo = append(todo, next.step)
			}
		}
	}
	return nil
}

// next are the waits whose callers have what one waits for.
func (g *Graph) next(i int) (list []held) {
	w := g.steps[i].Wait
	for _, h := range g.holds[at{w.Name, w.Several}] {
		if excludes(h.hold, w) {
			list = append(list, h)
		}
	}
	return list
}

// key is the same for two circles if they have the same waits and holds.
func (c Circle) key() string {
	parts := make([]string, len(c))
	for i, s := range c {
		parts[i] = fmt.Sprintf("%q %d %q %q %d", s.Said.Client, s.Wait.ID, s.Has.Name, s.Has.Owner, s.Has.Token)
	}
	slices.Sort(parts)
	return strings.Join(parts, "\n")
}

// Text is the circle for people, without its first words: who has what and waits for what.
func (c Circle) Text() string {
	parts := make([]string, len(c))
	for i, s := range c {
		who := s.Said.Client
		if s.Said.Label != "" {
			who += " (" + s.Said.Label + ")"
		}
		parts[i] = fmt.Sprintf("%s has %q and has waited %v for %q", who, s.Has.Name, s.Wait.Waited(), s.Wait.Name)
	}
	return strings.Join(parts, "; ")
}

// Watch remembers circles from one look to the next.
type Watch struct {
	known map[string]*sighting
}

// sighting is when a circle was seen first: by the numbers of the texts.
type sighting struct {
	numbers map[string]uint64
	told    bool
}

// See takes the circles of one look, and returns those that are certain now, each once for as long as it
// is seen in each look.
//
// The text of a client that was read in the first look has a number n. One with the next number may have
// been made before that look, and written after it. One with the number after that was made when one with
// the next number had been written, and so after that look.
func (w *Watch) See(circles []Circle) (certain []Circle) {
	now := make(map[string]*sighting, len(circles))
	for _, c := range circles {
		key := c.key()
		s := w.known[key]
		if s == nil {
			s = &sighting{numbers: make(map[string]uint64)}
			for _, step := range c {
				s.numbers[step.Said.Client] = step.Said.Number
			}
		}
		now[key] = s
		later := !slices.ContainsFunc(c, func(step Step) bool { return step.Said.Number < s.numbers[step.Said.Client]+2 })
		if later && !s.told {
			s.told = true
			certain = append(certain, c)
		}
	}
	w.known = now
	return certain
}

// Doubted reports whether a circle was seen that is not certain yet.
func (w *Watch) Doubted() bool {
	for _, s := range w.known {
		if !s.told {
			return true
		}
	}
	return false
}
