package simulation

import (
	"fmt"

	"github.com/holdfast-go/holdfast/integration_test/history"
)

// event is what may happen in worlds of the other kinds.
type event struct {
	of     history.Family
	kind   history.Kind
	result history.Result
	shared bool
}

func eventOf(o history.Op) event { return event{o.Of, o.Kind, o.Result, o.Shared} }

func (e event) String() string {
	side := ""
	if e.shared {
		side = " to read"
	}
	return fmt.Sprintf("%s: %s%s, %s", e.of, e.kind, side, e.result)
}

// events are what must have happened, or a run proves nothing about it.
func events() (list []event) {
	const ok, denied, refused, left, lost = history.OK, history.Denied, history.Refused, history.Left, history.Lost
	add := func(of history.Family, kind history.Kind, results ...history.Result) {
		for _, r := range results {
			list = append(list, event{of, kind, r, false})
		}
	}
	for _, kind := range []history.Kind{history.Lock, history.Try, history.Reenter, history.Unlock, history.Extend, history.State} {
		list = append(list, event{history.ReadWrite, kind, ok, false}, event{history.ReadWrite, kind, ok, true})
	}
	list = append(list, event{history.ReadWrite, history.Try, denied, true}, event{history.ReadWrite, history.Upgrade, refused, true},
		event{history.ReadWrite, history.Queue, ok, false}, event{history.ReadWrite, history.Try, denied, false})
	add(history.Permits, history.Lock, ok, refused, left)
	add(history.Permits, history.Try, ok, denied)
	for _, kind := range []history.Kind{history.Unlock, history.Extend, history.State, history.Queue, history.Set} {
		add(history.Permits, kind, ok)
	}
	add(history.Latches, history.Set, ok, denied)
	add(history.Latches, history.Delete, ok, denied)
	add(history.Latches, history.Wait, ok, left)
	add(history.Latches, history.CountDown, ok)
	add(history.Latches, history.Look, ok)
	add(history.Elections, history.Look, ok, denied)
	add(history.Elections, history.Leads, ok, denied)
	for _, kind := range []history.Kind{history.Lock, history.Unlock, history.Told, history.Observe, history.Queue} {
		add(history.Elections, kind, ok)
	}
	return append(list, event{history.ReadWrite, history.End, lost, true}, event{history.Permits, history.End, lost, false})
}

// missingEvent is one that has not happened yet.
func (s *totals) missingEvent() (e event, missing bool) {
	for _, e := range events() {
		if s.events[e] == 0 {
			return e, true
		}
	}
	return e, false
}

// others says how often what they are about was done in worlds of the other kinds.
func (s *totals) others() string {
	count := func(of history.Family, kind history.Kind, shared bool) int {
		return s.events[event{of, kind, history.OK, shared}]
	}
	grants := func(of history.Family, shared bool) int {
		return count(of, history.Lock, shared) + count(of, history.Try, shared)
	}
	lost, unknown, all := 0, 0, 0
	for e, n := range s.events {
		if all += n; e.kind == history.End && e.result == history.Lost {
			lost += n
		} else if e.result == history.Unknown {
			unknown += n
		}
	}
	return fmt.Sprintf("other kinds, %d operations: %d grants to read, %d to write, %d upgrades refused, %d grants of permits, "+
		"%d settings of their number, %d count-downs, %d waits for a latch that was open, %d terms of leaders, %d changes that observers "+
		"were told of, %d losses, %d of unknown outcome", all,
		grants(history.ReadWrite, true), grants(history.ReadWrite, false),
		s.events[event{history.ReadWrite, history.Upgrade, history.Refused, true}], grants(history.Permits, false),
		count(history.Permits, history.Set, false), count(history.Latches, history.CountDown, false),
		count(history.Latches, history.Wait, false), grants(history.Elections, false), count(history.Elections, history.Told, false),
		lost, unknown)
}
