package fair

import (
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
		if last < 0 || !q.mayJoin() || !all[last][0].mayJoin() {
			all = append(all, batch{q})
			continue
		}
		all[last] = append(all[last], q)
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
	waiting := make([]Waiting, len(p))
	for i, q := range p {
		waiting[i] = q.waiter.waiting()
	}
	l := p[0].waiter.list
	by := l.lists.client.Server()
	return l.server.protocol.Join(waiting, by.Publish, by.Clock.Limit())
}

// refused reports whether the server wants the requests of a batch in scripts of their own.
func (p batch) refused(r lua.Reply) bool { return len(p) > 1 && r.Status == lua.Done }
