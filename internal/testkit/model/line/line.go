// Package line is the half of a model that is alike for all kinds of locks with a queue at the
// server: the clients, their waiters, the network, the mailboxes and the clock. Packages fair and
// permits add a server each, and say what is wrong with a state.
//
// What it models: a waiter asks the server for the lock. If it is refused, its client subscribes to a mailbox, and the waiter
// asks for a place in the queue. From then on the client polls the queue for all its waiters, and messages tell it of grants. A
// network loses, delays and reorders requests, mailboxes break, processes stand still or die, and what an aborted attempt may
// have left at the server is released in the background. Time goes in ticks, for all clocks alike; what is granted is trusted
// for a tick less. A grant that a message tells of counts from the moment of the grant.
//
// The fields of Bounds limit how much of each there is. Left out: clocks that go at different speeds. A request that is not
// late travels in no time, because its sender does nothing that depends on its being on the way.
package line

import (
	"cmp"
	"iter"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/holdfast-go/holdfast/internal/testkit/model"
	"github.com/holdfast-go/holdfast/internal/testkit/model/fidelity"
	"github.com/holdfast-go/holdfast/lua"
)

// The defences that all models share.
const (
	// In the scripts.
	HeedsCount   model.Defence = 1 << iota // grant: who cannot be reached is passed over
	KeepsPlace                             // grant: and keeps its place, for it need not be dead
	ClaimEnds                              // grant: a claim has an end
	ClaimIsShort                           // grant: and that is sooner than that of a lease
	LeaverGone                             // release: who leaves has no place any more
	HandsOn                                // release: what is freed is handed off
	AsksHead                               // acquire: nobody passes the head
	OwnGrant                               // acquire: who was handed something is told so
	OncePlaced                             // acquire: who has a place gets no other
	Refreshes                              // poll: places are put off
	TellsMissing                           // poll: who lost its place is told

	// In the client.
	PollInTime   // a poll is put off by messages, but not for ever
	PollAtAll    // somebody looks after the queue
	GrantTime    // a claim is trusted from when it was handed over, not from when that was heard of
	OwnMessage   // a message of a grant from before a refusal is not trusted
	FreshOwner   // an owner id with a straggler is not used again
	FreshUndo    // nor is one that is being given back
	ServedFresh  // nor is one that a run has served
	ServedGiven  // places of those who were served are given back if the lock is lost
	Undo         // what a waiter may have left is given back
	UndoAgain    // and given back again, for a straggler
	Lateness     // one that comes later than that refuses itself
	NoticesBreak // when the mailbox breaks, the waiters ask
	TrustEnds    // a hold is trusted for less than its lease
	Own          // a model's own defences begin here
)

// Bounds are how much of everything there is in a scenario, and the rules in which the kinds of locks differ.
type Bounds struct {
	Clients, Waiters    uint8  // default: as many as there are homes and wishes
	Harmed              uint8  // how many of the clients meet faults, leave, stand still and die
	Home                Owners // whose client's a waiter is
	Wishes              Owners // locks that a waiter wants, one after another
	Lease, Claim, Place uint8  // ticks
	Messages            int    // that were given up and may still arrive, at a time

	Faults, Leaves, Crashes, Pauses uint8 // answers that do not come in time, callers that leave, processes
	Breaks                          uint8 // of mailboxes
	Losses                          uint8 // of the server's keys

	Tries  bool // the last waiter also tries the lock without waiting
	Prompt bool // clients do in time what they have to

	Listening bool             // and to subscribe is a part of that
	NewOwners bool             // every acquisition has an owner id of its own
	Together  [MaxWaiters]bool // may ask for its first place together with others of its client
}

// Pair leaves two waiters of a scenario, each of a client of its own, for controls that have to see all states.
func (b Bounds) Pair() Bounds {
	b.Home, b.Wishes = Owners{0, 1}, Owners{1, 1}
	return b
}

// within gives a scenario its times and its frail clients: for a longer look all, more faults, longer places and leases.
func (b Bounds) within() Bounds {
	for w, wishes := range b.Wishes {
		b.Clients = max(b.Clients, b.Home[w]+1)
		if wishes > 0 {
			b.Waiters = uint8(w) + 1 //nolint:gosec // few
		}
	}
	b.Claim, b.Harmed = 2, 1
	b.Lease, b.Place = cmp.Or(b.Lease, 3), cmp.Or(b.Place, 2)
	if model.Large() {
		b.Harmed = b.Clients
		b.Lease, b.Place = max(b.Lease, 3), max(b.Place, 3)
		b.Breaks, b.Pauses, b.Crashes = 2*b.Breaks, 2*b.Pauses, 2*b.Crashes
		if b.Leaves == 0 {
			b.Messages, b.Faults = 2*b.Messages, 2*b.Faults
		}
	}
	return b
}

// Answer is what a client learns from a reply.
type Answer struct {
	Status  lua.Status
	Token   uint8  // of a grant
	Missing uint8  // of a poll: a bit for each owner, by its place in the poll, that has no place in the queue
	Given   uint32 // of a poll: a bit for each owner id that was handed something
}

// Excess is a reply that the lock has not so many permits.
const Excess = fidelity.Excess

// Server is what a model adds to the line. All methods work on the state that a step is about to reach.
type Server interface {
	// Execute runs the script of a request. It posts the messages that the script sends.
	Execute(r Request) Answer
	// ExecuteFor is the same for a poll or a join of a client, for several owners.
	ExecuteFor(r Request, c uint8, of Owners) Answer
	// HandOn ends the hold of a waiter by handing it to the next of its run; false if there is none.
	HandOn(w uint8) bool
	// Others takes the steps that only this model has.
	Others()
	// Tick is a tick of the server.
	Tick()
	// EndQueue is the end of the queue's keys, of which no place counts any more.
	EndQueue()
	// Lose is the loss of all keys.
	Lose()
}

// Line is one exploration under way, as far as it is alike for all models.
type Line struct {
	Bounds
	Off  model.Defence
	Only error // no other violation counts

	server   Server
	whole    whole
	from, to *State // where the steps begin that are taken, and where the present one ends
	store    *Store // of the latter
	terms    Terms
	cut      int  // messages for which the bounds had no room
	not      bool // the present step cannot be taken
}

// whole are the states of a model, of which from and to are parts.
type whole interface {
	begin()
	end(who int, what string, quiet bool)
}

// steps takes all steps possible in a state. A slow request is sent later; a late one was sent before its sender went on
// without it. Answers that make a difference to trust travel on their own; so do messages.
func (l *Line) steps() {
	for w := range l.Waiters {
		if l.awake(l.Home[w]) {
			l.wants(w)
			l.attempts(w)
			l.holds(w)
			l.leaves(w)
		}
	}
	for c := range l.Clients {
		l.listens(c)
		if l.awake(c) {
			l.polls(c)
			l.joins(c)
		}
		l.process(c)
	}
	l.network()
	l.server.Others()
	l.time()
}

// Begin begins a step: what is done to the state that it returns leads to the next one.
func (l *Line) Begin() *State {
	l.not = false
	l.whole.begin()
	return l.to
}

// Quiet ends a step that may be counted upon: by quiet steps alone, everything comes to rest.
func (l *Line) Quiet(who int, what string) { l.end(who, what, true) }

// Loud ends a step that is a fault, or a wish that is not the end of something.
func (l *Line) Loud(who int, what string) { l.end(who, what, false) }

func (l *Line) end(who int, what string, quiet bool) {
	if l.not {
		return
	}
	l.compact()
	l.forget()
	l.whole.end(who, what, quiet)
}

// waiter and client are the letters by which steps name them.
func waiter(w uint8) int { return 'a' + int(w) }
func client(c uint8) int { return 'A' + int(c) }

// Post puts a message, if there is one, on its way.
func (l *Line) Post(m Mail) {
	if m != (Mail{}) && !model.Put(l.to.Mail[:], m) {
		l.cut++
	}
}

// awake reports whether a process does anything.
func (l *Line) awake(c uint8) bool { return !l.from.Paused.Has(c) && !l.from.Dead.Has(c) }

// frail reports whether something may go wrong with the next request of a client.
func (l *Line) frail(c uint8) bool { return l.from.Faults > 0 && c < l.Harmed }

// of are the waiters of a client.
func (l *Line) of(s *State, c uint8) iter.Seq2[uint8, *Waiter] {
	return func(yield func(uint8, *Waiter) bool) {
		for w := range l.Waiters {
			if l.Home[w] == c && !yield(w, &s.Waiters[w]) {
				return
			}
		}
	}
}

// Of tells whose client's an owner is.
func (l *Line) Of(owner uint8) uint8 {
	w, _ := WaiterOf(owner)
	return l.Home[w]
}

// Model is a model with a line of waiters.
type Model[S comparable] interface {
	Server
	// Start is the first state, but for the line.
	Start() S
	// Parts are the line and the store in a state.
	Parts(s *S) (*State, *Store)
	// Settle is that of a [model.Model]. The line has been settled.
	Settle(s *S) bool
	// Check returns what is wrong with a state, nil if nothing is.
	Check(s *S) error
	// AtRest reports whether nobody holds, waits or does anything, and so everybody was served.
	AtRest(s *S) bool
}

// Exploration is a line with the whole states of a model.
type Exploration[S comparable] struct {
	Line
	From, To S // where the steps begin that are taken, and where the present one ends
	out      *model.Steps[S]
}

// Explore explores a model within some bounds. It also looks whether all who wait can be served from everywhere, and all can
// come to rest: by messages, polls, answers, unlocks and time, without a fault, a renewal or a new wish.
func (e *Exploration[S]) Explore(m Model[S], in Bounds, off model.Defence, only error) (model.Report, error) {
	e.Line = Line{Bounds: in.within(), Off: off, Only: only, server: m, whole: e}
	e.from, _ = m.Parts(&e.From)
	e.to, e.store = m.Parts(&e.To)
	explored := model.Model[S]{
		Start: m.Start(), Next: e.next, Settle: m.Settle, Check: m.Check, Goal: m.AtRest, Only: only, Cut: &e.cut,
	}
	line, store := m.Parts(&explored.Start)
	*line = State{
		Faults: e.Faults, Leaves: e.Leaves, Crashes: e.Crashes, Pauses: e.Pauses, Breaks: e.Breaks, Losses: e.Losses,
	}
	for w := range e.Waiters {
		line.Waiters[w].Wishes = e.Wishes[w]
	}
	store.Clock = 1
	return model.Explore(explored)
}

func (e *Exploration[S]) next(s S, out *model.Steps[S]) {
	from, outer := e.From, e.out // out may look for the way to a violation by calling this again
	e.From, e.out = s, out
	e.steps()
	e.From, e.out = from, outer
}

// Start is the first state of a model to which nothing is to be added.
func (e *Exploration[S]) Start() (s S) { return s }

// Settle has nothing to do in a model whose server remembers nobody.
func (e *Exploration[S]) Settle(*S) bool { return true }

// Others takes no steps, in a model with nobody but the line.
func (e *Exploration[S]) Others() {}

// HandOn does nothing, in a model without runs.
func (e *Exploration[S]) HandOn(uint8) bool { return false }

func (e *Exploration[S]) begin() { e.To = e.From }

func (e *Exploration[S]) end(who int, what string, quiet bool) { e.out.Step(who, what, quiet, e.To) }

// History is what random histories of all kinds share: owners, and clients with mailboxes.
type History struct {
	*fidelity.Side
	*Terms
	Channel string   // of the lock
	Keys    []string // of the lock
}

// End leaves nothing behind.
func (h *History) End() {
	h.Lose(h.Keys...)
	h.Side.End()
}

// ClientName is the id of a client.
func ClientName(c uint8) string { return "client" + strconv.Itoa(int(c)) }

func number(owner uint8) string { return "h" + strconv.Itoa(int(owner)) }

// Owner is the name of an owner.
func (h *History) Owner(id uint8) string { return ClientName(h.Client(id)) + ":" + number(id) }

// Among are the names of some owners, as arguments of a script.
func (h *History) Among(owners []uint8) (names []any) {
	for _, id := range owners {
		names = append(names, h.Owner(id))
	}
	return names
}

func (h *History) mailbox(c uint8) string { return h.Channel + ":" + ClientName(c) }

// Toggle lets a client listen, or no longer.
func (h *History) Toggle(c uint8) {
	h.Up.Put(c, !h.Up.Has(c))
	h.Listen(h.Up.Has(c), h.mailbox(c))
}

// Command is one that the model has executed, and the server has not yet.
type Command struct {
	What   string
	Call   lua.Call
	Status lua.Status
	Values []any             // of the reply, as far as the model says; see [fidelity.Side.Run]
	Mail   []Mail            // that the script sends
	Behind func(Mail) string // what comes at the end of one that tells of a grant
	Others []string          // what the script says on the lock's channel behind these
	Handed bool              // the script handed something over
}

// Execute executes a command at the server, and says which branch that was.
func (h *History) Execute(c *Command) (got lua.Reply, branch string) {
	got = h.Run(c.What, c.Call, c.Status, c.Values...)
	h.hear(c)
	switch {
	case slices.ContainsFunc(c.Mail, func(m Mail) bool { return m.Token == 0 }):
		return got, "not so many"
	case len(c.Mail) > 0:
		return got, "handed over: " + strings.TrimSuffix(c.What, " again")
	case c.Handed && (c.What == "poll" || c.Status != lua.Done):
		return got, "handed over, unheard"
	}
	return got, c.What + " " + strconv.Itoa(int(c.Status))
}

// hear compares the messages that a script sent with those of the model: "<number of the owner> <token> <time of the grant, us>
// <claim, ms>" and something behind that, or dashes where there cannot be a grant.
func (h *History) hear(c *Command) {
	heard := h.Heard()
	if len(heard) != len(c.Mail)+len(c.Others) {
		h.Differ("%s sent %v, the model %v and %v", c.What, heard, c.Mail, c.Others)
		return
	}
	for i, m := range c.Mail {
		text, expected := heard[i].Payload, number(m.Owner)+" - - -"
		if m.Token != 0 {
			expected = number(m.Owner) + " - - " + strconv.FormatInt(h.Millis(h.Claim), 10) + c.Behind(m)
			f := append(strings.Fields(text), "", "", "")
			h.Same("the message", fidelity.Token(m.Token), f[1])
			_, err := strconv.ParseInt(f[2], 10, 64)
			h.Same("the time of the grant", nil, err)
			f[1], f[2] = "-", "-"
			text = strings.TrimRight(strings.Join(f, " "), " ")
		}
		h.Same("the mailbox", h.mailbox(h.Client(m.Owner)), heard[i].Channel)
		h.Same(c.What, expected, text)
	}
	for i, text := range c.Others {
		m := heard[len(c.Mail)+i]
		h.Same("the channel", h.Channel, m.Channel)
		h.Same(c.What, text, m.Payload)
	}
}

// Places reads a sorted set: each owner's ticks left, or model.Endless if it was handed the lock; and the keys' lives.
func (h *History) Places(deadlines, queue string) (places map[string]uint8, lives [2]time.Duration) {
	ctx, pipe := h.T.Context(), h.RDB.Pipeline()
	now, all := pipe.Time(ctx), pipe.ZRangeWithScores(ctx, deadlines, 0, -1)
	first, second := pipe.PTTL(ctx, deadlines), pipe.PTTL(ctx, queue)
	_, err := pipe.Exec(ctx)
	require.NoError(h.T, err)
	places = map[string]uint8{}
	for _, z := range all.Val() {
		left := uint8(model.Endless)
		if z.Score > 0 {
			left = fidelity.Ticks(max(0, time.UnixMilli(int64(z.Score)).Sub(now.Val())))
		}
		places[z.Member.(string)] = left
	}
	return places, [2]time.Duration{first.Val(), second.Val()}
}
