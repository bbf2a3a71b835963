package fair

import (
	"math"
	"time"

	"github.com/holdfast-go/holdfast/lua"
)

// batch has the requests that share a script: one request, or several for places in the same queue.
type batch []*request

// batches groups requests. Those for the same queue keep their order.
func batches(asked []*request) (all []batch) {
	for _, q := range asked {
		last := len(all) - 1
		for last >= 0 && all[last][0].waiter.list != q.waiter.list {
			last--
		}
		if last < 0 || !all[last].suits(q) {
			all = append(all, batch{q})
			continue
		}
		all[last] = append(all[last], q)
	}
	return all
}

// alike is by how much the places of a batch may differ at least: all of them last as long as the shortest.
const alike = 2 * time.Millisecond

// suits reports whether a request may share the batch's script: both are for a place in the same queue that is of use for
// about as long. (Rejected: one length for all places in a queue. If it is the longest, grants go to waiters that have left,
// and if all wait for a few round trips only, to no others. If it is the shortest, patient waiters lose their places with
// impatient ones.)
func (p batch) suits(q *request) bool {
	if !q.mayJoin() || !p[0].mayJoin() {
		return false
	}
	place, other := p[0].waiter.acquisition.Place(), q.waiter.acquisition.Place()
	return (place - other).Abs() <= max(alike, min(place, other)/16)
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
	owners, place := make([]string, len(p)), time.Duration(math.MaxInt64)
	for i, q := range p {
		owners[i] = q.waiter.owner
		place = min(place, q.waiter.acquisition.Place())
	}
	l := p[0].waiter.list
	by := l.lists.client.Server()
	return l.server.protocol.Join(owners, place, by.Publish, by.Clock.Limit())
}

// refused reports whether the server wants the requests of a batch in scripts of their own.
func (p batch) refused(r lua.Reply) bool { return len(p) > 1 && r.Status == lua.Done }
