package holdfasttest

import (
	"maps"
	"slices"
	"strings"

	"github.com/holdfast-go/holdfast/internal/keys"
	"github.com/holdfast-go/holdfast/lua"
)

// Op is a kind of command, for [Fault.Op].
type Op string

// The kinds of commands. One call of a caller may need several commands, and the client may send
// one of them again.
const (
	// Lock asks for a lock: the first time, again after each wake-up, and from its place in a
	// queue.
	Lock Op = "lock"
	// Reenter tells the server of a re-entry, or of an inner unlock.
	Reenter Op = "reenter"
	// Renew renews a lease, for the watchdog or for Extend.
	Renew Op = "renew"
	// Unlock gives a lock back, or passes it on. It includes what the client undoes in the
	// background.
	Unlock Op = "unlock"
	// Look only reads: State, Count, Leader.
	Look Op = "look"
	// Listen subscribes to the messages that wake the waiters of a lock. A fault can hit only its
	// command, and not its answer: faults of Listen cannot have [Fault.After].
	Listen Op = "listen"
	// Other is all else: commands of a latch, of ForceUnlock, SetPermits and announcements of a
	// leader.
	Other Op = "other"
)

func (o Op) known() bool {
	switch o {
	case "", Lock, Reenter, Renew, Unlock, Look, Listen, Other:
		return true
	}
	return false
}

// ops are the operations of the scripts. Those that are not here are [Other].
var ops = map[*lua.Script]Op{
	lua.Acquire: Lock, lua.HeadStart: Lock, lua.AcquireBeside: Lock, lua.HeadStartBeside: Lock, lua.Vote: Lock,
	lua.FairAcquire: Lock, lua.FairJoin: Lock, lua.FairPoll: Lock,
	lua.RwRead: Lock, lua.RwWrite: Lock, lua.SemAcquire: Lock, lua.SemJoin: Lock, lua.SemPoll: Lock,
	lua.Recount: Reenter,
	lua.Renew:   Renew, lua.RwReadRenew: Renew, lua.SemRenew: Renew, lua.ElectionRenew: Renew,
	lua.Release: Unlock, lua.Leave: Unlock, lua.LeaveQueue: Unlock, lua.Pass: Unlock, lua.FairRelease: Unlock,
	lua.RwReadRelease: Unlock, lua.RwWriteRelease: Unlock, lua.RwLeave: Unlock, lua.SemRelease: Unlock,
	lua.ElectionRelease: Unlock, lua.Taken: Unlock, lua.TakenShared: Unlock,
	lua.State: Look, lua.FairState: Look, lua.RwState: Look, lua.SemState: Look, lua.ElectionLeader: Look, lua.LatchLook: Look,
	lua.Inspect: Look,
}

// others are the scripts of locks that are [Other].
var others = []*lua.Script{
	lua.Force, lua.RwForce, lua.RwForceWriter, lua.SemSet, lua.SemForce, lua.ElectionAnnounce, lua.LatchSet, lua.LatchCount,
	lua.LatchDelete, lua.ForceOwner, lua.Fence,
}

// scripts are the operations by the hash and by the text of the script.
var scripts = func() map[string]Op {
	all := make(map[string]Op)
	add := func(s *lua.Script, op Op) { all[s.Hash()], all[s.Text()] = op, op }
	for s, op := range ops {
		add(s, op)
	}
	for _, s := range others {
		add(s, Other)
	}
	return all
}()

// texts are those of the library's scripts, by their hashes.
var texts = func() map[string]string {
	all := map[string]string{lua.Many.Hash(): lua.Many.Text(), lua.RenewMany.Hash(): lua.RenewMany.Text()}
	for s := range ops {
		all[s.Hash()] = s.Text()
	}
	for _, s := range others {
		all[s.Hash()] = s.Text()
	}
	return all
}()

// readWrite are the hashes of the scripts for read-write locks.
var readWrite = func() map[string]bool {
	all := make(map[string]bool)
	for _, s := range append(slices.Collect(maps.Keys(ops)), others...) {
		if strings.HasPrefix(s.Name(), "rw_") {
			all[s.Hash()] = true
		}
	}
	return all
}()

// command is what faults need to know of one.
type command struct {
	op    Op       // empty: it is of no lock
	names []string // of the lock; of Listen, the channels
	many  bool     // it is a script for many locks at once
}

// commandOf reads a command: for a script args are its name, the hash or the text, how many keys
// there are, and the keys.
func commandOf(args []string) command {
	switch name := strings.ToLower(args[0]); name {
	case "evalsha", "eval", "evalsha_ro", "eval_ro":
		if len(args) < 4 {
			return command{}
		}
		many := func(s *lua.Script) bool { return args[1] == s.Hash() || args[1] == s.Text() }
		return command{op: scripts[args[1]], names: args[3:4], many: many(lua.Many) || many(lua.RenewMany)}
	case "subscribe", "ssubscribe":
		return command{op: Listen, names: args[1:]}
	}
	return command{}
}

// fits reports whether a fault is about the command.
func (c command) fits(f Fault) bool {
	if c.op == "" || f.Op != c.op && (f.Op != "" || c.op == Listen) {
		return false
	}
	if f.Name == "" {
		return true
	}
	if c.op != Listen {
		return c.names[0] == f.Name
	}
	for _, channel := range c.names {
		for _, of := range channels(f.Name) {
			if channel == of || strings.HasPrefix(channel, of+":") {
				return true
			}
		}
	}
	return false
}

// channels are those on which waiters listen for a name.
func channels(name string) []string {
	_, election := keys.Election(name)
	return []string{
		keys.For(name).Channel, keys.ForReadWrite(name).Channel, keys.ForPermits(name).Channel, keys.ForLatch(name).Channel,
		election,
	}
}
