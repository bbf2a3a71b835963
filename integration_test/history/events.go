package history

import (
	"fmt"
	"slices"
)

// Event is something that happened to a lock of a [Family] beside the first, told apart as far as it
// matters whether a run has seen it.
type Event struct {
	Of     Family
	Kind   Kind
	Result Result
	Shared bool
}

func (e Event) String() string {
	side := ""
	if e.Shared {
		side = " to read"
	}
	return fmt.Sprintf("%s: %s%s, %s", e.Of, e.Kind, side, e.Result)
}

// Events are how often each has happened.
type Events map[Event]int

// Add counts an operation, if it is of one of the families that events are of.
func (e Events) Add(o Op) {
	if o.Of != Locks {
		e[Event{o.Of, o.Kind, o.Result, o.Shared}]++
	}
}

// wanted are what happens where a kind of lock is used without faults, and without which a run proves little about it.
func wanted(of Family) (list []Event) {
	add := func(kind Kind, results ...Result) {
		for _, r := range results {
			list = append(list, Event{of, kind, r, false})
		}
	}
	each := func(kinds ...Kind) {
		for _, kind := range kinds {
			add(kind, OK)
		}
	}
	switch of {
	case ReadWrite:
		for _, kind := range []Kind{Lock, Try, Reenter, Unlock, Extend, State} {
			list = append(list, Event{of, kind, OK, false}, Event{of, kind, OK, true})
		}
		list = append(list, Event{of, Try, Denied, true}, Event{of, Upgrade, Refused, true})
		add(Queue, OK)
		add(Try, Denied)
	case Permits:
		add(Lock, OK, Refused, Left)
		add(Try, OK, Denied)
		each(Unlock, Extend, State, Queue, Set)
	case Latches:
		add(Set, OK, Denied)
		add(Delete, OK, Denied)
		add(Wait, OK, Left)
		each(CountDown, Look)
	case Elections:
		add(Look, OK, Denied)
		add(Leads, OK, Denied)
		each(Lock, Unlock, Told, Observe, Queue)
	}
	return list
}

// Missing are those of the other kinds that have not happened yet.
func (e Events) Missing() (list []Event) {
	for _, of := range []Family{ReadWrite, Permits, Latches, Elections} {
		list = append(list, wanted(of)...)
	}
	list = append(list, Event{ReadWrite, End, Lost, true}, Event{Permits, End, Lost, false})
	return slices.DeleteFunc(list, func(w Event) bool { return e[w] > 0 })
}

// String says how often what the families are about was done.
func (e Events) String() string {
	count := func(of Family, kind Kind, shared bool) int { return e[Event{of, kind, OK, shared}] }
	grants := func(of Family, shared bool) int { return count(of, Lock, shared) + count(of, Try, shared) }
	lost, unknown, all := 0, 0, 0
	for event, n := range e {
		if all += n; event.Kind == End && event.Result == Lost {
			lost += n
		} else if event.Result == Unknown {
			unknown += n
		}
	}
	return fmt.Sprintf("other kinds, %d operations: %d grants to read, %d to write, %d upgrades refused, %d grants of permits, "+
		"%d settings of their number, %d count-downs, %d waits for a latch that was open, %d terms of leaders, %d changes that observers "+
		"were told of, %d losses, %d of unknown outcome", all,
		grants(ReadWrite, true), grants(ReadWrite, false), e[Event{ReadWrite, Upgrade, Refused, true}], grants(Permits, false),
		count(Permits, Set, false), count(Latches, CountDown, false), count(Latches, Wait, false), grants(Elections, false),
		count(Elections, Told, false), lost, unknown)
}
