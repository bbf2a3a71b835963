package history

import (
	"bytes"
	"cmp"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/anishathalye/porcupine"
)

// step is what the model does for an operation.
type step int

const (
	grant   step = iota // free -> held once, with a greater token
	refuse              // held by somebody
	reenter             // count + 1
	leave               // count - 1
	stay                // held, and from now on for nobody
	settle              // the same, or nothing if the owner does not hold it any more
	release             // held -> free, whatever the count: that is how the library's last unlock works
	expire              // free if the owner still holds it; else nothing. Never refused, so it can be left for the end
	look                // the owner and its count are such
	free                // free, whoever held it
)

// input is an operation as a model sees it. What it returned is in it: the model only says whether it can be so.
type input struct {
	step step
	op   Op
	id   string // of the grant
}

// sequence is what a model is to do.
type sequence []porcupine.Operation

// add adds a step that is made at some moment between the call of an operation and another moment.
func (l *sequence) add(s step, o Op, until int64) {
	*l = append(*l, porcupine.Operation{ClientId: o.Actor, Input: input{s, o, o.id()}, Call: o.Call, Return: until})
}

// short is an owner without most of its client's UUID.
func short(owner string) string {
	uuid, token, ok := strings.Cut(owner, ":")
	if !ok || len(uuid) < 4 {
		return owner
	}
	return uuid[:4] + ":" + token
}

// Linearizable looks for an order in which a reentrant lock with expiry answers so. An undecided name is a violation too.
func Linearizable(ops []Op, c Config) (found []Violation) {
	return linearize(ops, c, lockModel, func(ops []Op) sequence { return steps(ops, c) })
}

// linearize looks for an order of the steps of each name that a model allows.
func linearize(ops []Op, c Config, model porcupine.Model, steps func([]Op) sequence) (found []Violation) {
	limit := cmp.Or(c.Limit, 30*time.Second)
	for name, ops := range byName(ops) {
		result, info := porcupine.CheckOperationsVerbose(model, steps(ops), limit)
		if result == porcupine.Ok {
			continue
		}
		text := "no order of the operations explains their results"
		if result == porcupine.Unknown {
			text = fmt.Sprintf("not decided within %s; %d operations are too many for one name", limit, len(ops))
		}
		var picture bytes.Buffer
		if err := porcupine.Visualize(model, info, &picture); err != nil {
			text += " (no picture: " + err.Error() + ")"
		}
		found = append(found, Violation{"linearizability", name, text, ops, picture.Bytes()})
	}
	return found
}

// steps turns operations of one name into the model's, without abandoned waits, extensions, and unlocks of ended holds.
func steps(ops []Op, c Config) (list sequence) {
	open := make(map[grantID]Op) // grants that nobody is known to have ended, by their Lock
	lease := c.Lease + c.Recovery
	unsure := doubtful(ops, c)
	var crashes []Op // each began before the last grants of its client, perhaps
	ended := make(map[grantID]bool)
	for _, o := range ops {
		switch {
		case o.granted():
			open[o.grant()] = o
			list.add(grant, o, o.Return)
		case o.Kind == Try && o.Result == Denied && !unsure.ghost(o):
			list.add(refuse, o, o.Return)
		case o.Kind == Reenter && o.Result == OK:
			list.add(reenter, o, o.Return)
		case o.Kind == Unlock && o.Result == OK && o.Last && open[o.grant()].Least > 0:
			ended[o.grant()] = true
			list.add(stay, o, o.Return)
			t := tenure{op: open[o.grant()], unlocked: true}
			o.Call = max(o.Call, t.free())
			list.add(expire, o, Forever)
		case o.Kind == Unlock && o.Result == OK && o.Last:
			ended[o.grant()] = true
			list.add(release, o, o.Return)
		case o.Kind == Unlock && o.Result == OK:
			list.add(leave, o, o.Return)
		case o.Kind == Unlock && o.Result == Unknown && !o.Last:
			list.add(settle, o, after(o.Return, lease))
		case o.Kind == Unlock && o.Last && (o.Result == Unknown || o.Result == Lost || o.Result == Closed || o.Result == Left),
			o.Kind == End && o.Result != Released && o.Owner != "":
			if !ended[o.grant()] { // once is enough, and each makes the search longer
				ended[o.grant()] = true
				o.Call = o.trusted() // a process that was paused says so late
				list.add(expire, o, Forever)
			}
		case o.Kind == State && o.Result == OK && o.Owner != "" && !unsure.count(o):
			if o.Seen != "" && o.Seen != o.Owner {
				o.Depth = 0 // no count explains that
			}
			list.add(look, o, o.Return)
		case (o.Kind == Force && o.Result == OK || o.Kind == Wipe && o.Result != Unknown) && unsure.again(o):
			// an attempt that arrives after it may have taken the lock again, for the same owner
			for _, g := range open {
				if !ended[g.grant()] {
					g.Call = max(g.Call, o.Call)
					list.add(expire, g, Forever)
				}
			}
		case o.Kind == Force && o.Result == OK, o.Kind == Wipe && o.Result != Unknown:
			list.add(free, o, o.Return)
		case o.Kind == Crash:
			crashes = append(crashes, o)
		}
	}
	for _, o := range crashes {
		for _, g := range open {
			if g.Client == o.Client && !ended[g.grant()] {
				g.Call = max(g.Call, o.Call)
				list.add(expire, g, Forever)
			}
		}
	}
	return list
}

// doubts are times in which operations of unknown outcome may still have been at work. They are closed here, where a purist
// would hand Porcupine two open operations for each (it may have been granted, and given back): it cannot search that for
// hundreds of waiters that left. What is lost is little. A refusal that only such a grant would explain is not used.
//
// Who got the lock in the end may have got it before and not known it: the reply was lost, and no attempt got through until the
// lease was over. And a count that was told twice, because the first reply was lost, may be put back by the first telling, if
// that arrives late: the library leaves that to the next operation, because nothing is decided by the count in Redis.
//
// A client that keeps a lock has others refused although nobody holds it.
//
// And a fair lock refuses who does not wait also while it is free, if others have places in its queue.
type doubts struct{ ghosts, counts []Op }

func doubtful(ops []Op, c Config) (d doubts) {
	d.ghosts = crowded(ops, c)
	for _, t := range tenures(ops, 0) {
		if idle, _ := c.idle(t); t.op.Keep > 0 {
			o := t.op
			o.Call, o.Return = idle.From, idle.To
			d.ghosts = append(d.ghosts, o)
		}
	}
	for _, o := range ops {
		if o.Kind == Foreign {
			o.Call, o.Return = o.Call-int64(c.Recovery), after(max(o.Return, o.Deadline), c.Recovery)
			d.ghosts = append(d.ghosts, o)
			continue
		}
		if o.Result == OK || o.Result == Denied {
			switch repeated := c.troubled(o); {
			case !repeated:
			case o.granted():
				// an attempt before the one that was granted may arrive after its release
				o.Return = after(o.Return, c.Recovery+c.Late)
				d.ghosts = append(d.ghosts, o)
			case o.Kind == Reenter || o.Kind == Unlock:
				o.Return = after(o.Return, c.Recovery+c.Late)
				d.counts = append(d.counts, o)
			}
			continue
		}
		o.Return = after(o.Return, c.Lease+c.Recovery)
		switch o.Kind {
		case Lock, Try, Force:
			d.ghosts = append(d.ghosts, o)
		case Reenter, Upgrade: // may be a grant of its own, if the hold that was to be re-entered had been lost
			d.ghosts = append(d.ghosts, o)
		}
		if o.Kind == Reenter || o.Kind == Unlock { // for as long as nothing else is told, which may be to the end
			o.Return = Forever
			d.counts = append(d.counts, o)
		}
	}
	return d
}

// ghost reports whether a grant that nobody knows of, or a place, may have stood in the way of an operation.
func (d doubts) ghost(o Op) bool { return overlaps(d.ghosts, o, func(Op) bool { return true }) }

// again reports whether an attempt to get the lock, of one that was granted it, may have come after an operation.
func (d doubts) again(o Op) bool {
	return overlaps(d.ghosts, o, func(other Op) bool { return other.granted() })
}

// count reports whether the hold count of an owner may have been in doubt during an operation.
func (d doubts) count(o Op) bool {
	return overlaps(d.counts, o, func(other Op) bool { return other.Owner == o.Owner })
}

func overlaps(list []Op, o Op, which func(Op) bool) bool {
	return slices.ContainsFunc(list, func(other Op) bool {
		return other.Call <= o.Return && other.Return >= o.Call && which(other)
	})
}
