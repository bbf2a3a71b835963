package fair

import (
	"slices"
	"time"

	"github.com/holdfast-go/holdfast/lua"
)

// batch has the requests that share a script: one request, or several for places in the same queue.
type batch []*request

// batches groups requests. They keep their order among those of the same name.
func batches(asked []*request) (all []batch) {
	for _, q := range asked {
		i := -1
		if q.mayJoin() {
			i = slices.IndexFunc(all, func(p batch) bool { return p[0].waiter.list == q.waiter.list && p[0].mayJoin() })
		}
		if i < 0 {
			all = append(all, batch{q})
			continue
		}
		all[i] = append(all[i], q)
	}
	return all
}

// mayJoin reports whether a request may share a script. Such a script does not say what was granted, so
// a waiter that may have been granted the lock asks alone. So does a waiter that wants several permits.
func (q *request) mayJoin() bool {
	return q.joins && !q.before && !q.attempts.MayArriveLate && q.waiter.acquisition.Want().Count == 1
}

// call is the script of the next attempt.
func (p batch) call() lua.Call {
	if len(p) == 1 {
		return p[0].call()
	}
	owners, place := make([]string, len(p)), time.Duration(0)
	for i, q := range p {
		owners[i] = q.waiter.owner
		place = max(place, q.waiter.acquisition.Place())
	}
	l := p[0].waiter.list
	by := l.lists.client.Server()
	return l.server.protocol.Join(owners, place, by.Publish, by.Clock.Limit())
}

// refused reports whether the server wants the requests of a batch in scripts of their own.
func (p batch) refused(r lua.Reply) bool { return len(p) > 1 && r.Status == lua.Done }
