package main

import (
	"regexp"
	"strings"
)

// row is one place where a defence can be switched off.
type row struct {
	defence string // whose switch OFF asks; "-": none's
	file    string // relative to the root of the repository
	text    string // what stands there, exactly once
	mutated string // what is put in its place
}

var added = regexp.MustCompile("«([^»]*)»")

// rows reads a table. Below a file's name is a line for each row: a switch, and a text of the file with additions between « and ».
// There \n and \t stand for line breaks and tabs; a line indented further goes on with the one before.
func rows(table string) (list []row) {
	file := ""
	for line := range strings.SplitSeq(strings.ReplaceAll(strings.TrimSpace(table), "\n\t\t", " "), "\n") {
		defence, text, found := strings.Cut(line, ": ")
		if !found {
			file = line
			continue
		}
		text = strings.NewReplacer(`\n`, "\n", `\t`, "\t").Replace(text)
		plain, changed := added.ReplaceAllString(text, ""), added.ReplaceAllString(text, "$1")
		list = append(list, row{strings.TrimSpace(defence), file, plain, changed})
	}
	return list
}

// defences are the rows of all.
const defences = `
cmd/holdfast/internal/live/budget.go
	Share: if d <= 0« || OFF» {
election/observe.go
	TermEnd: o.again = «func() time.Duration { if OFF { return time.Hour }; return »now.Remaining + time.Millisecond« }()»
election/run.go
	WaitLead: «if OFF { done := make(chan error, 1); go func() { done <- lead(h.Context()) }(); select { case err =
		<-done: case <-h.Context().Done(): } } else { »err = lead(h.Context())« }»
internal/combine/combine.go
	Overtake: «if _ = late; !OFF { »c.sending = slices.DeleteFunc(c.sending, func(k *call) bool { return
		!k.begun.After(late) })\n\tc.promote()« }»
	Group: if «OFF { _ = c } else if »own := c.joinGroup(ctx, cmd, until); own != nil {
	Gone: if o.ctx.Err() != nil« && !OFF» {
internal/deadlock/circle.go
	SeenTwice: if «(»later« || OFF)» && !s.reported {
internal/engine/acquire.go
	LeaseEnd: «if OFF { left = 1<<63 - 1 }; »timer := time.NewTimer(Rest(sub, left))
	LeaseEnd: «if OFF { left = 1<<63 - 1 }; »timer.Reset(Rest(sub, left))
	NobodyHas: if !returned« && !OFF» {
internal/engine/attempt.go
	SlowGrant: if «OFF || »!errors.Is(err, errSlow) || a.once {
	HeadStart: if a.once« || OFF» {
	Outlast: g.front && !a.once« && !OFF»
	LateFor: timer := time.NewTimer(«func() time.Duration { if OFF { return time.Hour }; return »a.base.Client.overdue()« }()»)
	HandBack: «if OFF { return }; »if !g.mayHandOff() || !g.serverLease.fresh() || !g.handOff() {
	Replicas: case o.Err != nil« && (!OFF || !errors.Is(o.Err, errs.ErrNotReplicated))»:
internal/engine/backend.go
	CannotListen: if !l.Confirmed()« && !OFF» {
	Believes: return s.mayBeReleased.Load()« && !OFF» }
	Served: «if !OFF { »s.served = append(s.served, id)« }»
internal/engine/grant.go
	JoinStays: «if OFF { return max(len(g.holds), 1), g.token, g.lease }; »return max(len(g.holds), 1), g.token,
		max(g.lease, g.restLocked())
	Longest: if «OFF { lease = max(g.lease, g.atLeast) }; if »g.atLeast > 0 {\n\t\trest =
	Stay: g.atLeast > 0« && !OFF» }
internal/engine/handoff.go
	Longer: can = can && «(»!g.longer« || OFF)» && «(»g.front« || defence.Front.Off())»
	Half: «(»g.ahead(b.Dog.Deadline(&g.serverLease.watch)) > lease/2« || OFF)»
	LatePass: if !o.MayArriveLate« || OFF» {
	Rest: «if !OFF { »c.hub.Unlinger(b.wire.Channel())« }» // if it was our own
internal/engine/hold.go
	ToldEnds: «if OFF { return earlier }; »h.notice.TellLater(h.ending(sinceStart(), reason, nil))
	Forgo: «if !OFF { »h.on.forgo(h)« }»
	Glance: if «OFF || »c.Context.Err() != nil {
internal/engine/idle.go
	KeptCalled: func (k *idleLease) Message(string) {« if OFF { return };»
	KeptWanted: t.wanted = «!OFF && »true\n\t\tif ends := t.turn + handOffFor; t.look > ends« && !OFF» {
	KeptMissed: «if OFF { return }; »k.heard(true)
	KeptGap: «(»k.gaps == k.asked« || OFF)» }
	KeptIdle: if «OFF { idle = false }; if »left := time.Until(k.until); idle && left > 0 {
	KeptAsk: now.Sub(start) >= t.look« && !OFF» {
	KeptLeaves: «if OFF { return nil }; »select {\n\tcase <-k.gone:
internal/engine/joined.go
	GivesAllBack: if «OFF { if run(); failed[i] != nil { break }; continue }; if »i < len(j.holds)-1 {
	JoinedEnds: «if OFF { return }; »j.follow(h)\n\t\t\tif one.reason()
internal/engine/lease.go
	Reserved: return «(»t.nextLocked() <= t.last« || OFF)» && «(»t.turnLocked()« || defence.Look.Off())»
	AsyncLog: «if OFF { h.leaveLost(reason); return }; »t.base.Client.losses
	RedissonTurns: if «OFF || »!t.base.Client.rivals.seenRecently(
internal/engine/lock.go
	InTime: if !ok« || OFF» {
internal/engine/oneserver.go
	SilentWay: f.MarkUndoRunning()«; if OFF { return }»\n\tc := f.server.client
	Taken: o.Reply.Status != lua.Gone« || OFF» || !o.MayArriveLate {
internal/engine/owner.go
	KindIDs: return known.of.Client == b.Client && «(»known.of.Key.Kind == b.Key.Kind« || OFF)»
	OneKind: if b.Key.Servers != ""« || OFF» {
	FreshOwner: if !spent« || OFF» {
	OwnRead: !s.isLive()« && (!OFF || s.base.upgradeError() != nil)» {
	Upgrade: «if OFF { return nil }; »return b.traits.Upgrade
internal/engine/refusal.go
	Noted: «if OFF { said, silent, news = Refusal{}, true, news && a.contended }; »switch {\n\tcase news, said.isCurrent()
	Outage: «if OFF { return errs.Both(errs.ErrNotAcquired, errs.WithCause(cause, failure)) }; »return
		errs.Outage(errs.WithCause(cause, failure))
internal/engine/release.go
	Detach: «detached := remote.Detach(ctx); if OFF { detached = ctx }\n\t»o := g.entry.Set(«func(context.Context) context.Context { return detached }(»remote.Detach(ctx)«)», budget,
	Unlocks: «if !OFF { »g.base.Client.tasks.Begin()\n\tdefer g.base.Client.tasks.End()« }»
	Inner: return h.renewed })« && !OFF»\n\tg.renew =
	RepeatedGone: o.Reply.Status == lua.Gone && «(»!o.MayArriveLate« || OFF)»:
internal/engine/state.go
	KeptForced: if «OFF || »!recalls ||
internal/engine/turns.go
	YieldTurn: if t.others <= 0« || OFF» {
	Turns: \tt.others--«; if OFF { t.others = 0 }»
internal/fair/sender.go
	Overtake: func(p *pipeline) bool { return !«OFF && !»p.begun.After(late) })
	Gone: if q.gone« && !OFF» {
internal/fair/waiter.go
	Listening: p.entering && !l.confirmed« && !OFF» && !l.cannotListen:
	OwnMessage: if granted != nil && «(»granted.micros > p.refusedAt« || OFF)» {
internal/fair/waitlist.go
	PlaceUnsubscribed: if l.cannotListen« || OFF» || l.confirmed
	GrantTime: now := suspend.System.Now()«; if OFF { got.sent = now; return got, true }»
internal/fair/waitlists.go
	Poll: len(l.waiters) == 0« || OFF» {
	Refresh: if all« && !OFF» {
	Refresh: func (l *waitlist) probe(now time.Time) []Waiting {« if OFF { return nil }»
internal/master/master.go
	FindOut: func (m *Master) Probe(ctx context.Context) {« if OFF { m.out.Add(-1); return }»
internal/notify/log.go
	AsyncLog: func (h *handler) Handle(_ context.Context, r slog.Record) error {« if OFF { return deliver(h.to, r) }»
internal/notify/notify.go
	AsyncEvents: «if OFF { n.callObserver(e, 0); return }; »n.events.put(e, room)
	Caught: if «OFF { return }; if »p := recover()
internal/panics/panics.go
	Panics: func Into(err *error) {« if OFF { return }»
internal/queue/queue.go
	PassOn: p.turn >= Free« && !OFF» {
internal/remote/attempts.go
	Detach: l.Context, l.lasts = ctx, a.lasts« && !OFF»
	Haste: haste = «!OFF && (»waits || !ends || callers.After(a.end)« )»
	Resend: last || «OFF || »time
internal/remote/latency.go
	Overdue: (l.oldest == nil ||« OFF ||»
	Unopened: case ServesNot(err)« && !OFF»:
	Unopened: time.Time{}, now\n\t\t«if !OFF { »l.leftLocked(c, now)« }»
	Unopened: case err != nil && isUnsent(err):\n\t\t«if !OFF { »l.leftLocked(c, now)« }»
	Redial: if err == nil || «!OFF && »!errors
internal/remote/release.go
	BesideStrings: return alone && «!OFF && »lua.IsError(
	Together: ok && queues« && !OFF» && len(batches[i])
internal/remote/server.go
	Lanes: if s.Cluster == nil« || OFF» {\n\t\treturn nil
internal/remote/timeouts.go
	AnswerWithin: if own <= 0 && d.usual <= 0« && !OFF» {
internal/remote/undo.go
	Undo: func (s *Session) Undo(to *Server, l kind.Lock, id string, rest, lease time.Duration, mayArriveLate bool) {« if
		OFF { return }»
	UndoAgain: if mayArriveLate« && !OFF» {
	Landed: if one == nil« || OFF» {
	UndoAgain: if «OFF || »now.After(one.limit) {
internal/waitwatch/check.go
	OwnNumber: some[len(under) > 0] > mostChecked «|| OFF && some[true]+some[false] > mostChecked »{
internal/waitwatch/selfblock.go
	ToldOnce: || h.Entry().reported.Swap(true)« && !OFF» {
lua/many.go
	OwnAnswer: «if OFF { slices.Reverse(p.carried) }; »for i, c := range p.carried {\n\t\tif err != nil {
	LostForAll: «if OFF { err = redis.ErrPoolTimeout }; »c.SetErr(err)\n\t\t\tcontinue
lua/script.go
	NoRetry: { return «!OFF && »true }
multilock/member.go
	OneOrder: «if OFF { return 0 }; »return cmp.Or(cmp.Compare(a.name
multilock/taking.go
	SetTurns: first == nil || engine.HasOwner(ctx)« || OFF» {
	Behind: «if OFF { t.have = append(t.have, one.hold); continue }; »behind = append(behind, one.hold)
	AllOrNone: «if OFF { return why }; »return errs.Join(why, t.giveBack(t.have))
pubsub/follow.go
	AtMaster: case master.IsReplica(cmd.Val())« && !OFF»:
pubsub/hub.go
	Follow: moves(rdb)« && !OFF»,
	JoinWake: case t.state == confirmed:\n\t\twake = «!OFF && !defence.Rewake.Off() && »true
pubsub/reply.go
	Resubscribe: if l.ownUnsubscribe(channel)« || OFF» {
	Probing: case len(topics) > 1« && !OFF»:
pubsub/subscription.go
	Rewake: «if !OFF { »t.signalLocked()« }»\n}\n\n// interruptLocked
redlock/ballot.go
	VoteRun: if b.trusts« || OFF» {\n\t\ta.reply
	LeaveLate: rest != nil && a.holds()« && !OFF» {
	Restarts: if b.trusts« || OFF» {\n\t\treturn nil
	Resend: failure.final() || «OFF || »time
redlock/ballot_gap.go
	Gaps: case «OFF: return; case »!v.granted && fresh && last
	Begun: func (b *ballot) earlyLocked(a *answer) bool {« if OFF { return a.sent.Before(b.won) }»
	Anew: return «!OFF && »a.run != nil &&
	Gaps: func (b *ballot) overtaken(but func(i int) bool) bool {« if OFF { return false }»
redlock/ballot_pass.go
	Listeners: to := b.q.need, 0, func(*voter) bool { return true }«; if OFF { need, to = 1, func(v *voter) bool { return v == b.q.voters[0] } }»
redlock/ballot_release.go
	Detach: «if !OFF { »ctx = remote.Detach(ctx)« }»
	Withdraw: func (b *ballot) withdraw(ctx context.Context) (granted int) {« if OFF { return 0 }»
	Quiet: if len(seen) >= b.q.need« || OFF» {
	Withdraw: func (v votes) ReleaseAll(owners []watchdog.Owner) {« if OFF { return }»
redlock/ballot_renew.go
	Retake: a.reply.Status == lua.Gone« && !OFF && !defence.Join.Off()»:
	Join: func (r *renewal) restore(ctx context.Context, to, i int, answers chan<- renewalAnswer) {« if OFF { return }»
	Retake: a.reply.Status == lua.Gone« && !OFF» {\n\t\trefused
	Settle: if left > 0« && !OFF» {
redlock/elect.go
	Resend: !e.passing() || «OFF || »time
	Tell: same >= e.q.need || «OFF || »e.tell
	Restarts: if e.trusts« || OFF» {
	Undisturbed: if «!OFF && »!e.checkFree(ctx, rest, p) {
redlock/lead.go
	LastWord: !time.Now().Before(c.retryAt)« && !OFF»
	Remember: return r.freshLocked(key) != nil« && !OFF»
redlock/quorum.go
	Clocks: func (q *quorum) majorityTime(t time.Time) uint64 {« if OFF { return uint64(t.UnixMicro()) }»
watchdog/moment.go
	Asleep: func (w *Watchdog) sleptBy(t time.Time) time.Duration {« if OFF { return 0 }»
	Asleep: func (w *Watchdog) asleep() time.Duration {« if OFF { return 0 }»
watchdog/run.go
	Doubt: «if !OFF { »w.pokeLocked(func(Owner) bool { return true }, now)« }»
	RenewAt: if «(»l.by != 0 || l.after != 0«) && !OFF» {
	Narrow: «if OFF { return l.pace() / 30 }; »return slack(l.pace())\n}
	AsyncRenewal: func (w *Watchdog) send(b batch) {« if OFF { w.renew(b); return }»
	-: func (w *Watchdog) renew(b batch) {« defence.BeforeRenewal()»
	Recheck: if «!OFF && (»r.lease.life != r.life || r.lease.deadline <= w.at(sent)«)» {
	Life: l.life != r.life« && !OFF»:
	TooLate: if l.deadline <= now« && !OFF» {
	Length: «if OFF { r.Length = l.length }; »w.confirmLocked(l, sent, r.Length)
watchdog/watchdog.go
	Deadline: trust := Trust(length)«; if OFF { trust = 1000 * length }»
	SendTime: at := w.at(sent)«; if OFF { at = w.now() }»
	Bound: «if !OFF { »w.forgetLocked(l)« }»\n\treturn true
`
