package deadlock

import (
	"fmt"
	"maps"
	"slices"
	"strings"
)

// Step is one wait of a circle.
type Step struct {
	Published *Published // the text of its client
	Wait      *Wait
	Has       *Hold // the hold that the step before waits for; the last step waits for that of the first
}

// Circle is a circle of waits: each waits for a hold of the next one, and the last one for a hold of the first.
type Circle []Step

// excludes reports whether a wait cannot end while the hold lasts. Kinds are not compared: kinds that share a
// name exclude each other, too.
func excludes(h *Hold, w *Wait) bool {
	return h.Name == w.Name && h.Several == w.Several && !(h.Reading && w.Reading) && h.Owner != w.Owner
}

// at is a name, as the key of an index.
type at struct {
	name    string
	several int
}

// Graph has what clients have published at about one time.
type Graph struct {
	steps []Step // without Has
	holds map[at][]held
}

// held is a hold of a name, and the step whose caller has it.
type held struct {
	step int
	hold *Hold
}

// NewGraph makes a graph. The texts are not copied.
func NewGraph(all ...*Published) *Graph {
	g := &Graph{holds: make(map[at][]held)}
	for _, s := range all {
		for i := range s.Waits {
			w := &s.Waits[i]
			for j := range w.Holds {
				h := &w.Holds[j]
				key := at{h.Name, h.Several}
				g.holds[key] = append(g.holds[key], held{len(g.steps), h})
			}
			g.steps = append(g.steps, Step{Published: s, Wait: w})
		}
	}
	return g
}

// Circles returns circles, each once. Every wait of the client that is in any circle is in one of these; an empty
// client means all clients. Each circle begins with the wait for which it was found, and no circle with that
// wait is shorter.
func (g *Graph) Circles(client string) (all []Circle) {
	known, in := map[string]bool{}, map[*Wait]bool{}
	for i, s := range g.steps {
		if client != "" && s.Published.Client != client || in[s.Wait] {
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

// through finds a shortest circle through one wait, breadth first; nil if there is none.
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
				c := Circle{{g.steps[start].Published, g.steps[start].Wait, next.hold}}
				for i := at; i != start; i = back[i].from {
					c = slices.Insert(c, 1, Step{g.steps[i].Published, g.steps[i].Wait, back[i].has})
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

// next returns the waits whose callers hold what wait i waits for.
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
		parts[i] = fmt.Sprintf("%q %d %q %q %d", s.Published.Client, s.Wait.ID, s.Has.Name, s.Has.Owner, s.Has.Token)
	}
	slices.Sort(parts)
	return strings.Join(parts, "\n")
}

// Text describes the circle for people: what each client has, and what it waits for.
func (c Circle) Text() string {
	parts := make([]string, len(c))
	for i, s := range c {
		who := s.Published.Client
		if s.Published.Label != "" {
			who += " (" + s.Published.Label + ")"
		}
		parts[i] = fmt.Sprintf("%s has %q and has waited %v for %q", who, s.Has.Name, s.Wait.Waited(), s.Wait.Name)
	}
	return strings.Join(parts, "; ")
}

// Watch remembers circles from one check to the next.
type Watch struct {
	known map[string]*sighting
}

// sighting is when a circle was first seen, by the numbers of the texts.
type sighting struct {
	numbers  map[string]uint64
	wait     uint64 // the ID of the wait that the circle begins with
	reported bool
}

// See takes the circles of one check, and returns those that are certain now, each once. One that a check does not see,
// because a text has ended, is the same deadlock when it is seen again: its waits and holds cannot come back.
//
// Let n be the number of a client's text in the first check. Text n+1 may have been made before that check, and
// written after it. Text n+2 was made after text n+1 had been written, and so after that check.
func (w *Watch) See(circles []Circle) (certain []Circle) {
	now := make(map[string]*sighting, len(circles))
	for _, c := range circles {
		key := c.key()
		s := w.known[key]
		if s == nil {
			s = &sighting{numbers: make(map[string]uint64), wait: c[0].Wait.ID}
			for _, step := range c {
				s.numbers[step.Published.Client] = step.Published.Number
			}
		}
		now[key] = s
		later := !slices.ContainsFunc(c, func(step Step) bool { return step.Published.Number < s.numbers[step.Published.Client]+2 })
		if later && !s.reported {
			s.reported = true
			certain = append(certain, c)
		}
	}
	for key, s := range w.known {
		if s.reported {
			now[key] = s
		}
	}
	w.known = now
	return certain
}

// Forget forgets the circles whose first wait does not last any more. Without it, the circles that were returned stay.
func (w *Watch) Forget(lasts func(wait uint64) bool) {
	maps.DeleteFunc(w.known, func(_ string, s *sighting) bool { return !lasts(s.wait) })
}

// Doubted reports whether a circle was seen that is not certain yet.
func (w *Watch) Doubted() bool {
	for _, s := range w.known {
		if !s.reported {
			return true
		}
	}
	return false
}
