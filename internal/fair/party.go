package fair

import (
	"slices"
	"time"

	"github.com/holdfast-go/holdfast/lua"
)

// party are questions that one script asks: one question, or several for places in the same queue.
type party []*inquiry

// together makes parties of questions. They keep their order among those of the same name.
func together(asked []*inquiry) (parties []party) {
	for _, q := range asked {
		i := -1
		if q.mayJoin() {
			i = slices.IndexFunc(parties, func(p party) bool { return p[0].place.list == q.place.list && p[0].mayJoin() })
		}
		if i < 0 {
			parties = append(parties, party{q})
			continue
		}
		parties[i] = append(parties[i], q)
	}
	return parties
}

// mayJoin reports whether a question may share a script. Such a script does not say what was granted,
// so a waiter that may have been granted the lock asks alone. So does one that wants several permits.
func (q *inquiry) mayJoin() bool {
	return q.joins && !q.before && !q.effort.Stray && q.place.acquisition.Want().Count == 1
}

// call is the script of the next attempt.
func (p party) call() lua.Call {
	if len(p) == 1 {
		return p[0].call()
	}
	owners, place := make([]string, len(p)), time.Duration(0)
	for i, q := range p {
		owners[i] = q.place.owner
		place = max(place, q.place.acquisition.Place())
	}
	l := p[0].place.list
	by := l.lists.client.Server()
	return l.server.protocol.Join(owners, place, by.Publish, by.Clock.Limit())
}

// refused reports whether the server left it to the questions of a party to be asked alone.
func (p party) refused(r lua.Reply) bool { return len(p) > 1 && r.Status == lua.Done }
