package lua

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"sync/atomic"

	"github.com/redis/go-redis/v9"
)

// Many does for many locks what [Acquire] and [Release] do for one. See [Packer].
var Many = load("many", 0)

const (
	// manyLocks is how many locks one script takes or releases at most: the server serves nobody
	// else meanwhile. Measured: a tenth of a millisecond for 32, and more at once are no cheaper.
	manyLocks = 32
	// fewLocks is the default of [Packer.Few].
	fewLocks = 4
	// manyApart is for how many sendings after a refusal nothing is packed.
	manyApart = 1000

	manyKeys = 2 // of a lock
	head     = 3 // words before the keys in the arguments of a call: command, hash, number of keys
)

// Packer puts calls of [Acquire] and [Release] that travel together into few scripts, which is less
// work for the server: of 8 locks a sixth less than one by one in one pipeline, of 32 a third. It is
// for calls to one server, whose names have no slots of their own. It is used concurrently, and its
// zero value is ready.
//
// What a caller gets is what it would get alone: each call has its own reply or error. An error of
// the network is the error of each call in that script, and leaves open for each of them whether it
// ran. If a server refuses such a script as a whole, because the user may not use one of the keys
// or because the names do have slots, nothing was done; then its calls are sent one by one, and for
// a while nothing is packed.
//
// Two calls on one name are never in one script; they keep their order.
type Packer struct {
	// Few is how many calls are put into one script at least. Zero stands for 4: of 2, one script
	// costs the server a tenth more than one by one.
	Few   int
	apart atomic.Int64 // for how many sendings nothing is packed
}

// Send sends commands by a function that sends some of them in one round trip, and which leaves each
// with its own answer. So does Send.
func (p *Packer) Send(cmds []redis.Cmder, send func(cmds []redis.Cmder)) {
	if p.apart.Load() > 0 {
		p.apart.Add(-1)
		send(cmds)
		return
	}
	packed, parcels := pack(cmds, cmp.Or(p.Few, fewLocks))
	if len(parcels) == 0 {
		send(cmds)
		return
	}
	send(packed)
	var again []redis.Cmder
	for _, one := range parcels {
		if redis.HasErrorPrefix(one.Err(), "NOSCRIPT") {
			again = append(again, one.withText())
		}
	}
	if len(again) > 0 {
		send(again)
	}
	again = nil
	for _, one := range parcels {
		if isRefusal(one.Err()) {
			again = append(again, one.calls()...)
		} else {
			one.open()
		}
	}
	if len(again) > 0 {
		p.apart.Store(manyApart)
		send(again)
	}
}

// isRefusal tells an error of the server from one of the network.
func isRefusal(err error) bool { return err != nil && isAnswer(err) }

// pack puts parcels in the place of calls, each at the place of its first one. Other commands stay
// as they are. A call on a name that is in the parcel begins the next one.
func pack(cmds []redis.Cmder, few int) (packed []redis.Cmder, parcels []*parcel) {
	var last *parcel
	for _, cmd := range cmds {
		c, ok := packable(cmd)
		switch {
		case !ok:
			packed = append(packed, cmd)
		case last == nil || len(last.carried) == manyLocks || last.has(c):
			last = &parcel{carried: []*command{c}}
			packed = append(packed, last)
		default:
			last.carried = append(last.carried, c)
		}
	}
	all := packed
	packed = make([]redis.Cmder, 0, len(cmds))
	for _, cmd := range all {
		one, ok := cmd.(*parcel)
		switch {
		case !ok:
			packed = append(packed, cmd)
		case len(one.carried) < few:
			packed = append(packed, one.calls()...)
		default:
			one.seal()
			parcels = append(parcels, one)
			packed = append(packed, one)
		}
	}
	return packed, parcels
}

// The arguments of the calls that are packed, behind the head.
const (
	acquireArgs = manyKeys + 6
	releaseArgs = manyKeys + 2
)

// packable is a command as a call of [Release], or of [Acquire] if it is the first attempt. See
// many.lua for the reason.
func packable(cmd redis.Cmder) (*command, bool) {
	c, ok := cmd.(*command)
	return c, ok && (c.acquires() || c.releases())
}

func (c *command) acquires() bool {
	const again = head + manyKeys + 3
	args := c.Cmd.Args()
	return len(args) == head+acquireArgs && args[1] == Acquire.sha && args[0] == evalsha && args[again] == first
}

func (c *command) releases() bool {
	args := c.Cmd.Args()
	return len(args) == head+releaseArgs && args[1] == Release.sha && args[0] == evalsha
}

var evalsha, first any = "evalsha", "0"

// parcel is one script that does what several calls ask for.
type parcel struct {
	command
	carried []*command // acquisitions first, when it is sealed
	taken   int        // how many of them are acquisitions
}

// Args is called to write the parcel: then its calls have been asked for too.
func (p *parcel) Args() []any {
	for _, c := range p.carried {
		c.asked.Store(true)
	}
	return p.Cmd.Args()
}

// has reports whether a call on the same name is in the parcel.
func (p *parcel) has(c *command) bool {
	name := c.Cmd.Args()[head]
	return slices.ContainsFunc(p.carried, func(o *command) bool { return o.Cmd.Args()[head] == name })
}

// seal makes the command of what is in the parcel.
func (p *parcel) seal() {
	slices.SortStableFunc(p.carried, func(a, b *command) int { return len(b.Cmd.Args()) - len(a.Cmd.Args()) })
	for _, c := range p.carried {
		if c.acquires() {
			p.taken++
		}
	}
	args := make([]any, 0, head+1+len(p.carried)*acquireArgs)
	args = append(args, evalsha, Many.sha, manyKeys*len(p.carried))
	for _, c := range p.carried {
		args = append(args, c.Cmd.Args()[head:head+manyKeys]...)
	}
	args = append(args, p.taken)
	for _, c := range p.carried {
		args = append(args, c.Cmd.Args()[head+manyKeys:]...)
	}
	p.Cmd = *redis.NewCmd(context.Background(), args...) // of no use in a pipeline
	p.SetStepCount(1)
}

// withText turns the EVALSHA into an EVAL, to be sent anew.
func (p *parcel) withText() *parcel {
	args := p.Cmd.Args()
	args[0], args[1] = "eval", Many.src
	p.SetErr(nil)
	return p
}

// calls are the calls, to be sent one by one.
func (p *parcel) calls() (cmds []redis.Cmder) {
	for _, c := range p.carried {
		cmds = append(cmds, c)
	}
	return cmds
}

// open gives each call what is for it.
func (p *parcel) open() {
	reply, err := parse(p.Result())
	if answers := len(reply.values) - 1; err == nil && answers != len(p.carried) {
		err = fmt.Errorf("script replied %d answers for %d locks", answers, len(p.carried))
	}
	for i, c := range p.carried {
		if err != nil {
			c.SetErr(err)
			continue
		}
		switch answer := reply.values[i+1].(type) {
		case string:
			c.SetErr(partError(answer))
		case int64:
			switch {
			case answer != int64(Done):
				c.SetVal([]any{answer})
			case i < p.taken:
				c.SetVal(reply.values[0])
			default:
				c.SetVal(answer)
			}
		case error: // of a proxy, since the script replies none
			c.SetErr(answer)
		default:
			c.SetVal(answer)
		}
	}
}
