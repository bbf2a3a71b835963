package history

import (
	"bufio"
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"math"
	"slices"
	"sync"
	"time"
)

// Kind is what an operation does.
type Kind string

// The kinds of operations.
const (
	Lock    Kind = "lock"    // waits until it is granted
	Try     Kind = "try"     // does not wait
	Reenter Kind = "reenter" // Lock or TryLock under the context of a hold
	Unlock  Kind = "unlock"
	Extend  Kind = "extend"
	State   Kind = "state" // Owner and Depth are what the server said
	Force   Kind = "force" // ForceUnlock
	// within a Lock: asks for a place in a fair lock's queue. OK: has one; Denied: was granted the lock
	Queue Kind = "queue"
	// a grant's context was seen to have ended; Result says why, Deadline how long it was trusted
	End   Kind = "end"
	Crash Kind = "crash" // Client stopped for good: it did nothing after Return, and since Call perhaps nothing
	Mixed Kind = "mixed" // TryLock of another kind of lock on the name, under the context of a hold
	// something that is no lock of ours was surely under Name all the time. Seen is what refusals say of it
	Foreign Kind = "foreign"
	Wipe    Kind = "wipe" // the server lost its data; of Name, or of all names where that is empty
	// ReadWrite: Lock under a hold to read, which is to be refused
	Upgrade Kind = "upgrade"
	// Permits: SetPermits, to Total. Latches: Set, to Depth; Denied: it was set already
	Set       Kind = "set"
	CountDown Kind = "count" // Latches: Depth is what it said was left
	Look      Kind = "look"  // Latches: Depth is the count. Elections: Seen leads, with Token; Denied: nobody
	Wait      Kind = "wait"  // Latches: OK: it was open
	Delete    Kind = "delete"
	Observe   Kind = "observe" // Elections: Actor was told of changes all the time
	// Elections: an observer was told that Seen leads, with Token and Value; of nobody where Seen is empty
	Told  Kind = "told"
	Leads Kind = "leads" // Elections: Actor asked its process whether it leads itself; OK: yes
)

// Family is the kind of lock that an operation is of.
type Family string

// The families. Plain and fair locks, and those of a quorum, are the first.
const (
	Locks     Family = ""
	ReadWrite Family = "read-write"
	Permits   Family = "permits"
	Latches   Family = "latch"
	Elections Family = "election"
)

// Result is how an operation ended.
type Result string

// The results.
const (
	OK       Result = "ok"
	Denied   Result = "denied"   // another owner had the lock
	Left     Result = "left"     // the wait was over, or the context
	Lost     Result = "lost"     // ErrLost
	Released Result = "released" // ErrReleased
	Closed   Result = "closed"   // ErrClosed
	Refused  Result = "refused"  // ErrInvalid
	Unknown  Result = "unknown"  // anything else: it may have been carried out or not, or may yet be
)

// Forever is the return of an operation that did not return.
const Forever int64 = math.MaxInt64

// Op is one operation.
type Op struct {
	Client int    `json:"client"` // the process
	Actor  int    `json:"actor"`  // the goroutine in it; one operation at a time
	Name   string `json:"name,omitempty"`
	Kind   Kind   `json:"kind"`
	Of     Family `json:"of,omitempty"`
	Shared bool   `json:"shared,omitempty"` // ReadWrite: to read
	// tells the grants of one owner with one token apart, which readers may have several of
	Grant int    `json:"grant,omitempty"`
	Owner string `json:"owner,omitempty"` // of the hold; of a lock that was not granted, empty
	// Lock, Try, Reenter, Mixed: as which owner it asked the server last, if that was seen
	Asked string `json:"asked,omitempty"`
	Token uint64 `json:"token,omitempty"`
	// State: the hold count. Permits: asked for, had, or free (a State without an Owner). Latches: the count; -1: not told
	Depth int    `json:"depth,omitempty"`
	Total int    `json:"total,omitempty"` // Permits: how many there are
	Value string `json:"value,omitempty"` // Elections: what a candidate says of itself
	Seen  string `json:"seen,omitempty"`  // State: the owner that the server named
	Last  bool   `json:"last,omitempty"`  // Unlock: of the owner's last hold
	// by a client of Redisson's, which goes before others that wait, and whose permits have no tokens
	Guest bool `json:"guest,omitempty"`
	// it ended by the panic of a hook, or of one whose command travelled with another's
	Panic bool `json:"panic,omitempty"`
	// Lock, Try, Wait: its context had ended before the call
	Early bool `json:"early,omitempty"`
	// told ErrNotAcquired, of a Lock, Try or Wait without a grant; and told ErrUnavailable, see [Outages]
	Taken  bool `json:"taken,omitempty"`
	Outage bool `json:"outage,omitempty"`
	Handed bool `json:"handed,omitempty"` // Lock, Try: granted by the client, not by the server
	// Lock, Try, Reenter, Extend: that was asked for, in nanoseconds; 0: not known
	Lease int64 `json:"lease,omitempty"`
	// Lock, Try: for how long the lock is to stay taken, in nanoseconds; 0: as long as it is held
	Least int64 `json:"least,omitempty"`
	// Lock, Try: for how long the client may keep the lock after that, in nanoseconds
	Keep  int64 `json:"keep,omitempty"`
	Plain bool  `json:"plain,omitempty"` // Lock, Try, Reenter, and Unlock of their holds: nobody renews them
	Left  int64 `json:"left,omitempty"`  // State: what is left of the lease, in nanoseconds, at the server

	Call   int64 `json:"call"` // nanoseconds, by the recorder's clock
	Return int64 `json:"return,omitempty"`

	Result Result `json:"result,omitempty"`
	Error  string `json:"error,omitempty"`
	// End, Unlock (at its call), and grants: until when the hold could be trusted. Foreign: until when it may have stood there
	Deadline int64 `json:"deadline,omitempty"`
}

// granted reports whether the operation got its owner a new grant.
func (o *Op) granted() bool { return (o.Kind == Lock || o.Kind == Try) && o.Result == OK }

// tokenless reports whether it got a grant of a kind that has no tokens.
func (o *Op) tokenless() bool { return o.Guest && o.Of == Permits && o.Token == 0 }

// trusted is when a hold stopped being one, as far as the end of it tells: at its deadline, if nobody looked until later.
func (o *Op) trusted() int64 {
	at := o.Call
	if o.Kind == End && o.Result == Closed {
		at -= int64(reporting)
	}
	if o.Deadline == 0 {
		return at
	}
	return min(at, o.Deadline)
}

// reporting is by how much the end of a hold may be told too late: a goroutine does it, which has to be scheduled. Where the
// client was closed its own release may hand the lock to another process before that.
const reporting = 50 * time.Millisecond

// grantID is what all operations of one grant share. Owner ids are used again, tokens are not, except those of readers.
type grantID struct {
	owner  string
	token  uint64
	shared bool
	number int
}

func (o *Op) grant() grantID { return grantID{o.Owner, o.Token, o.Shared, o.Grant} }

func (o *Op) String() string {
	at := func(ns int64) string {
		if ns == Forever {
			return "never"
		}
		return time.Duration(ns).String()
	}
	s := fmt.Sprintf("%d.%d %s %s [%s, %s] %s", o.Client, o.Actor, o.Kind, o.Name, at(o.Call), at(o.Return), o.Result)
	for _, part := range []struct {
		known bool
		text  string
	}{
		{o.Shared, " to read"},
		{o.Owner != "", fmt.Sprintf(" %s token %d", o.Owner, o.Token)},
		{o.Handed, " handed on"},
		{o.Depth != 0, fmt.Sprintf(" count %d", o.Depth)},
		{o.Total != 0, fmt.Sprintf(" of %d", o.Total)},
		{o.Seen != "", " sees " + o.Seen},
		{o.Deadline != 0, " trusted until " + at(o.Deadline)},
		{o.Error != "", ": " + o.Error},
	} {
		if part.known {
			s += part.text
		}
	}
	return s
}

// Window is a time in which servers, network or clients were disturbed on purpose.
type Window struct{ From, To int64 }

// Event is what happened to a lock of a [Family] beside the first, as finely as it matters whether a run has seen it.
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

// Recorder collects operations as they are called and return. All methods are safe for concurrent use.
type Recorder struct {
	now func() int64

	mu  sync.Mutex // guards the rest, and makes the order of lines that of the moments in them
	ops []Op
	out io.Writer
	err error
	end bool // crashed: nothing counts any more
}

// NewRecorder makes a recorder. now is its clock, in nanoseconds; histories that are checked together have one clock.
func NewRecorder(now func() int64) *Recorder { return &Recorder{now: now} }

// Stream has each call and return also written to out at once, as a line that [Read] understands: it survives the process.
func (r *Recorder) Stream(out io.Writer) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.out = out
}

// Call is an operation under way.
type Call struct {
	r  *Recorder
	id int
}

// line is one moment of an operation in a stream.
type line struct {
	ID  int  `json:"id"`
	End bool `json:"end,omitempty"`
	Op  Op   `json:"op"`
}

// Begin notes that an operation is being called now. The moment is taken before Begin returns, so before the call.
func (r *Recorder) Begin(op Op) Call {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.end {
		return Call{r, -1}
	}
	op.Call, op.Return, op.Result = r.now(), Forever, Unknown
	r.ops = append(r.ops, op)
	c := Call{r, len(r.ops) - 1}
	r.writeLocked(line{ID: c.id, Op: op})
	return c
}

// End notes that the operation has returned, and with what.
func (c Call) End(change func(*Op)) {
	r := c.r
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.end {
		return
	}
	op := &r.ops[c.id]
	op.Return = r.now()
	change(op)
	r.writeLocked(line{ID: c.id, End: true, Op: *op})
}

// Note records something that happened at this moment.
func (r *Recorder) Note(op Op) {
	r.Begin(op).End(func(o *Op) { o.Result, o.Error = op.Result, op.Error })
}

// Crash notes that the client has stopped for good. What a process does after it that only plays dead is not recorded.
func (r *Recorder) Crash(client int) {
	r.Note(Op{Kind: Crash, Client: client, Result: OK})
	r.mu.Lock()
	defer r.mu.Unlock()
	r.end = true
}

func (r *Recorder) writeLocked(l line) {
	if r.out == nil || r.err != nil {
		return
	}
	text, err := json.Marshal(l)
	if err == nil {
		_, err = r.out.Write(append(text, '\n'))
	}
	r.err = err
}

// Ops are the operations so far; those that have not returned are open.
func (r *Recorder) Ops() []Op {
	r.mu.Lock()
	defer r.mu.Unlock()
	return append([]Op(nil), r.ops...)
}

// Err is the first failure to write the stream.
func (r *Recorder) Err() error {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.err
}

// Read reads what one recorder streamed. A last line that was cut off when its process was killed is left out.
func Read(in io.Reader) ([]Op, error) {
	var ops []Op
	reader := bufio.NewReader(in)
	for {
		text, err := reader.ReadBytes('\n')
		if err == io.EOF {
			return ops, nil
		}
		if err != nil {
			return ops, err
		}
		var l line
		if err := json.Unmarshal(bytes.TrimSpace(text), &l); err != nil {
			return ops, fmt.Errorf("line %q: %w", text, err)
		}
		switch {
		case !l.End && l.ID == len(ops):
			ops = append(ops, l.Op)
		case l.End && l.ID < len(ops):
			ops[l.ID] = l.Op
		default:
			return ops, fmt.Errorf("line %q is out of order", text)
		}
	}
}
