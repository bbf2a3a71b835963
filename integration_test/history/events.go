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

// wanted are what must have happened, or a run proves nothing about it.
func wanted() (list []Event) {
	add := func(of Family, kind Kind, results ...Result) {
		for _, r := range results {
			list = append(list, Event{of, kind, r, false})
		}
	}
	for _, kind := range []Kind{Lock, Try, Reenter, Unlock, Extend, State} {
		list = append(list, Event{ReadWrite, kind, OK, false}, Event{ReadWrite, kind, OK, true})
	}
	list = append(list, Event{ReadWrite, Try, Denied, true}, Event{ReadWrite, Upgrade, Refused, true},
		Event{ReadWrite, Queue, OK, false}, Event{ReadWrite, Try, Denied, false})
	add(Permits, Lock, OK, Refused, Left)
	add(Permits, Try, OK, Denied)
	for _, kind := range []Kind{Unlock, Extend, State, Queue, Set} {
		add(Permits, kind, OK)
	}
	add(Latches, Set, OK, Denied)
	add(Latches, Delete, OK, Denied)
	add(Latches, Wait, OK, Left)
	add(Latches, CountDown, OK)
	add(Latches, Look, OK)
	add(Elections, Look, OK, Denied)
	add(Elections, Leads, OK, Denied)
	for _, kind := range []Kind{Lock, Unlock, Told, Observe, Queue} {
		add(Elections, kind, OK)
	}
	return append(list, Event{ReadWrite, End, Lost, true}, Event{Permits, End, Lost, false})
}

// Missing are those that have not happened yet and without which a run proves little.
func (e Events) Missing() []Event {
	return slices.DeleteFunc(wanted(), func(w Event) bool { return e[w] > 0 })
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
