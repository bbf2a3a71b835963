package election_test

import (
	"context"
	"errors"
	"io"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/require"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/election"
	"github.com/holdfast-go/holdfast/internal/testkit/defence"
	"github.com/holdfast-go/holdfast/internal/testkit/faultproxy"
	"github.com/holdfast-go/holdfast/internal/testkit/kindtest"
	"github.com/holdfast-go/holdfast/internal/testkit/mutant"
	"github.com/holdfast-go/holdfast/internal/testkit/redistest"
	"github.com/holdfast-go/holdfast/lua"
)

// booth is an election with one candidate behind a proxy, and another around it.
type booth struct {
	srv           *redistest.Server
	rdb           *redis.Client // around the proxy
	proxy         *faultproxy.Proxy
	faulty, other *election.Election
}

func newBooth(t *testing.T, faulty, other *holdfast.Options, hooks ...redis.Hook) *booth {
	srv := redistest.Start(t)
	client, proxy := kindtest.Behind(t, srv.Addr(), 200*time.Millisecond, hooks...)
	b := &booth{srv: srv, rdb: srv.Client(t), proxy: proxy}
	b.faulty = election.New(newClient(t, client, faulty), "booth")
	b.other = election.New(newClient(t, b.rdb, other), "booth")
	h := lead(t, b.other, "") // the server knows the scripts from here on
	require.NoError(t, kindtest.Err(b.other.Leader(t.Context())))
	unlock(t, h)
	return b
}

// TestAnnouncementMeetsFaults: the announcement, or its answer, is lost. It is repeated, and observers are told of one leader.
func TestAnnouncementMeetsFaults(t *testing.T) {
	kindtest.EachFault(t, func(t *testing.T, fault faultproxy.Action) {
		b := newBooth(t, nil, nil)
		w, stop := watch(t, b.other)
		require.Equal(t, election.Leader{}, w.next())
		rule := b.proxy.On(script(lua.ElectionAnnounce), 1, fault)
		h := lead(t, b.faulty, "v")
		require.Equal(t, 1, rule.Count())
		l := leader(t, b.other)
		require.Equal(t, h.Token(), l.Token)
		require.Equal(t, h.Token(), w.next().Token)
		unlock(t, h)
		require.Equal(t, election.Leader{}, w.next())
		stop()
		require.Empty(t, w.told)
	})
}

// refusal is an error of a server.
type refusal string

func (r refusal) Error() string { return string(r) }
func (refusal) RedisError()     {}

// TestRunAfterARefusedAnnouncement: the announcement, or its repeat after a lost answer, is refused. Run campaigns again.
func TestRunAfterARefusedAnnouncement(t *testing.T) {
	const no = refusal("ERR not now")
	for name, answers := range map[string][]error{"uncertain": {io.EOF, no}, "refused": {no}} {
		t.Run(name, func(t *testing.T) {
			rdb := kindtest.Hooked(redistest.Shared(t).Client(t), redistest.Around(func(send func() error, cmds ...redis.Cmder) error {
				if args := cmds[0].Args(); len(args) > 1 && args[1] == lua.ElectionAnnounce.Hash() && len(answers) > 0 {
					err := answers[0]
					answers = answers[1:]
					cmds[0].SetErr(err)
					return err
				}
				return send()
			}))
			led := errors.New("it has led")
			require.ErrorIs(t, election.New(newClient(t, rdb, nil), uniqueName(t)).Run(t.Context(), "v", func(context.Context) error {
				return led
			}), led)
			require.Empty(t, answers)
		})
	}
}

// TestRunWhileRefused: Redis refuses a candidate. Run logs that once, campaigns again, and leads when Redis lets it.
func TestRunWhileRefused(t *testing.T) {
	t.Parallel()
	for name, user := range map[string]struct{ refused, permitted, says string }{
		"permission": {"-evalsha", "+evalsha", "NOPERM"},
		"password":   {"resetpass", ">secret", "WRONGPASS"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			srv := redistest.Start(t)
			srv.Command(t, "ACL", "SETUSER", "candidate", "on", ">secret", "~*", "&*", "+@all")
			srv.Command(t, "ACL", "SETUSER", "candidate", user.refused)
			rdb := srv.Client(t, func(o *redis.Options) { o.Username, o.Password = "candidate", "secret" })
			logged := &kindtest.Log{}
			e := election.New(newClient(t, rdb, &holdfast.Options{Logger: logged.Logger(), RetryBudget: time.Second}), "e")
			done := make(chan error, 1)
			go func() { done <- e.Run(t.Context(), "v", func(context.Context) error { return nil }) }()
			const again = "a campaign failed, and is repeated"
			eventually(t, "it says so", func() bool { return strings.Contains(logged.String(), again) })
			require.Contains(t, logged.String(), user.says)
			srv.Command(t, "ACL", "SETUSER", "candidate", user.permitted)
			require.NoError(t, kindtest.Receive(t, "it has led", done))
			require.Equal(t, 1, strings.Count(logged.String(), again))
		})
	}
}

// TestNoAnnouncement: a leader that cannot announce itself gives way to the next. Control: one that announces itself stays.
func TestNoAnnouncement(t *testing.T) {
	b := newBooth(t, &holdfast.Options{RetryBudget: 300 * time.Millisecond, Lease: time.Hour}, nil)
	rule := b.proxy.On(script(lua.ElectionAnnounce), 0, faultproxy.DropRequest)
	require.ErrorIs(t, kindtest.Err(b.faulty.Campaign(t.Context(), "v")), holdfast.ErrUnavailable)
	h := lead(t, b.other, "next")
	unlock(t, h)
	rule.Clear()
	h = lead(t, b.faulty, "v")
	kindtest.Refused(t.Context(), t, of(b.other, "next"), holdfast.Wait(0))
	unlock(t, h)
}

// TestLateAnnouncement: what a former leader said arrives after the next one has said its own, and
// changes nothing. Control: without the script's look at the holder it does.
func TestLateAnnouncement(t *testing.T) {
	late := func(t *testing.T, hooks ...redis.Hook) (leader election.Leader, value string) {
		b := newBooth(t, &holdfast.Options{RetryBudget: 300 * time.Millisecond}, nil, hooks...)
		h := lead(t, b.faulty, "earlier") // the server knows an edited script too
		unlock(t, h)
		b.proxy.KeepRequest(func(args []string) bool { // an edited script has another hash
			return len(args) > 8 && args[len(args)-3] == "the former"
		}, 0, time.Hour)
		require.ErrorIs(t, kindtest.Err(b.faulty.Campaign(t.Context(), "the former")), holdfast.ErrUnavailable)
		h = lead(t, b.other, "the present")
		b.proxy.Deliver()
		leader, _ = b.other.Leader(t.Context())
		value = b.rdb.Get(t.Context(), said("booth")).Val()
		unlock(t, h)
		return leader, value
	}
	leader, value := late(t)
	require.Equal(t, "the present", leader.Value)
	require.Contains(t, value, "the present")
	leader, value = late(t, mutant.Hook(lua.ElectionAnnounce, "if not held then return {-1} end", "",
		"#last > #token or #last == #token and last > token", "false"))
	require.Equal(t, election.Leader{}, leader, "control: the leader is not known any more")
	require.Contains(t, value, "the former")
}

// TestCannotListen: a client whose subscriptions get no answer is told nothing, and asks. Its candidate has a
// place, and leads when the leader has resigned; its observer sees both.
func TestCannotListen(t *testing.T) {
	b := newBooth(t, forLong, forLong)
	b.proxy.On(faultproxy.Command("SUBSCRIBE"), 0, faultproxy.BlackHole)
	h := lead(t, b.other, "first")
	w, _ := watch(t, b.faulty)
	w.until("first")
	next := stand(t, b.rdb, b.faulty, "next")
	unlock(t, h)
	h = next.Hold()
	w.until("next")
	unlock(t, h)
	w.until("")
}

// TestDeafLeader: a function does not look at its context. While it works on after its leadership was
// lost, nothing is renewed, and this process does not campaign. When it returns, it does, and leads
// again. Control: without waiting for it, the process leads a second time beside itself.
func TestDeafLeader(t *testing.T) {
	t.Run("waited for", func(t *testing.T) { require.False(t, campaignsBesideItself(t)) })
	t.Run("control", func(t *testing.T) {
		defer defence.WaitLead.Without(t)()
		require.True(t, campaignsBesideItself(t))
	})
}

// campaignsBesideItself reports whether the process of a deaf leader is a candidate again while its function is at work.
func campaignsBesideItself(t *testing.T) (beside bool) {
	b := newBooth(t, &holdfast.Options{Lease: 3 * time.Second}, nil)
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	works, release, done := make(chan context.Context, 10), make(chan struct{}), make(chan error, 1)
	go func() {
		done <- b.faulty.Run(ctx, "deaf", func(lead context.Context) error {
			works <- lead
			<-release
			return nil
		})
	}()
	first := <-works
	require.NoError(t, b.rdb.Del(t.Context(), "booth").Err())
	next := lead(t, b.other, "next")
	eventually(t, "the deaf one's context has ended", func() bool { return first.Err() != nil })
	require.ErrorIs(t, context.Cause(first), holdfast.ErrLost)
	// A campaign would begin at once. Meanwhile the next leader is renewed, three times per lease.
	renewals := func() int { return b.proxy.Seen(script(lua.ElectionRenew)) }
	before, asked := renewals(), b.proxy.Seen(script(lua.FairAcquire))
	start := b.rdb.Time(t.Context()).Val()
	eventually(t, "it would campaign, or time has passed", func() bool {
		beside = b.proxy.Seen(script(lua.FairAcquire)) > asked || len(queued(t, b.rdb, "booth")) > 0
		return beside || b.rdb.Time(t.Context()).Val().Sub(start) > 1500*time.Millisecond
	})
	if !beside {
		require.Equal(t, before, renewals(), "what is lost is not renewed")
		require.Empty(t, works)
	}
	require.Equal(t, []string{next.Owner()}, b.rdb.HKeys(t.Context(), "booth").Val())
	close(release)
	unlock(t, next)
	if !beside {
		<-works // it leads again
	}
	cancel()
	<-done
	return beside
}

// TestRestart: the server is started anew, without its data. The leader is told that it is none any
// more, nobody sleeps for ever, and observers learn of the new leader. Its token is greater.
func TestRestart(t *testing.T) {
	srv := redistest.Start(t)
	opts := &holdfast.Options{Lease: 3 * time.Second, RetryBudget: 500 * time.Millisecond}
	ctx, cancel := context.WithCancel(t.Context())
	type turn struct {
		context.Context
		value string
		token uint64
	}
	turns := make(chan turn, 100)
	var running sync.WaitGroup
	defer running.Wait()
	defer cancel()
	for _, value := range []string{"a", "b", "c"} {
		rdb := srv.Client(t, func(o *redis.Options) { o.ReadTimeout = 200 * time.Millisecond })
		e := election.New(newClient(t, rdb, opts), "e")
		running.Go(func() {
			for ctx.Err() == nil {
				_ = e.Run(ctx, value, func(lead context.Context) error {
					l, _ := e.Leader(lead)
					turns <- turn{lead, value, l.Token}
					<-lead.Done()
					return nil
				})
			}
		})
	}
	next := func() turn { return kindtest.Receive(t, "somebody leads", turns) }
	first := next()
	w, stop := watch(t, election.New(newClient(t, srv.Client(t), opts), "e"))
	require.Equal(t, first.value, w.next().Value)
	srv.Kill()
	srv.Restart()
	second := next()
	eventually(t, "the former leader is told", func() bool { return first.Err() != nil })
	for l := w.next(); l.Token != second.token || l.Value != second.value; {
		l = w.next()
	}
	require.Greater(t, second.token, first.token)
	stop()
}

// TestObserved: campaigns are waits, and terms are holds.
func TestObserved(t *testing.T) {
	var w kindtest.Witness
	c, err := holdfast.New(redistest.Shared(t).Client(t), &holdfast.Options{Observer: w.Observer()})
	require.NoError(t, err)
	e := election.New(c, t.Name())
	term := lead(t, e, "one")
	kindtest.Refused(t.Context(), t, of(e, "two"), holdfast.Wait(time.Second))
	unlock(t, term)
	_ = lead(t, e, "three")
	require.NoError(t, c.Close(context.Background()))
	require.NoError(t, w.Wrong())
	calls := w.Calls()
	require.Len(t, calls, 3)
	require.Equal(t, "election", calls[0].Wait.Kind)
	require.ErrorIs(t, calls[0].Ended.Reason, holdfast.ErrReleased)
	require.ErrorIs(t, calls[1].Refused.Err, holdfast.ErrNotAcquired)
	require.ErrorIs(t, calls[2].Ended.Reason, holdfast.ErrClosed)
}

// TestAnnouncementKeepsToTheTimeOfTheCall: the server falls silent between the grant and the announcement. The call ends by
// its Wait, or when its context is cancelled, and not by the retry budget.
func TestAnnouncementKeepsToTheTimeOfTheCall(t *testing.T) {
	for how, cancels := range map[string]bool{"Wait": false, "cancelled": true} {
		t.Run(how, func(t *testing.T) {
			t.Parallel()
			srv := redistest.Start(t)
			proxy := faultproxy.New(t, srv.Addr())
			rdb := redistest.NewClient(t, proxy.Addr(), func(o *redis.Options) { o.ReadTimeout = -1 })
			c := newClient(t, rdb, &holdfast.Options{RetryBudget: time.Hour})
			announcement := proxy.DelayReply(script(lua.ElectionAnnounce), 1, time.Hour)
			release := proxy.DelayReply(script(lua.ElectionRelease), 0, time.Hour)
			require.NoError(t, srv.Client(t).ScriptLoad(t.Context(), lua.ElectionAnnounce.Text()).Err())
			require.NoError(t, srv.Client(t).ScriptLoad(t.Context(), lua.ElectionRelease.Text()).Err())
			ctx, cancel := context.WithCancel(t.Context())
			defer cancel()
			wait := 2 * time.Second
			if cancels {
				wait = time.Hour
			}
			campaign := func(ctx context.Context, opts ...holdfast.Option) (*holdfast.Hold, error) {
				return election.New(c, "e").Campaign(ctx, "value", opts...)
			}
			waiting := kindtest.Begin(ctx, t, campaign, holdfast.Wait(wait))
			eventually(t, "it announces itself", func() bool { return announcement.Count() > 0 })
			if cancels {
				cancel()
			}
			require.ErrorIs(t, waiting.Err(), holdfast.ErrUnavailable)
			announcement.Release()
			release.Release()
			proxy.Clear()
		})
	}
}
