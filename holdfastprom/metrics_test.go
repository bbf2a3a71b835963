package holdfastprom_test

import (
	"context"
	"fmt"
	"io"
	"math/rand/v2"
	"net/http"
	"net/http/httptest"
	"runtime"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promhttp"
	"github.com/prometheus/client_golang/prometheus/testutil"
	"github.com/stretchr/testify/require"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/event"
	"github.com/holdfast-go/holdfast/fairlock"
	"github.com/holdfast-go/holdfast/holdfastprom"
	"github.com/holdfast-go/holdfast/internal/testkit/hostile"
	"github.com/holdfast-go/holdfast/internal/testkit/kindtest"
	"github.com/holdfast-go/holdfast/internal/testkit/redistest"
	"github.com/holdfast-go/holdfast/rlock"
	"github.com/holdfast-go/holdfast/rwlock"
	"github.com/holdfast-go/holdfast/semaphore"
	"github.com/holdfast-go/holdfast/watchdog"
)

// register returns a registry that checks what it collects.
func register(t *testing.T, m *holdfastprom.Metrics) *prometheus.Registry {
	r := prometheus.NewPedanticRegistry()
	require.NoError(t, r.Register(m))
	return r
}

// scrape gets the metrics as Prometheus does.
func scrape(t *testing.T, r *prometheus.Registry) string {
	server := httptest.NewServer(promhttp.HandlerFor(r, promhttp.HandlerOpts{EnableOpenMetrics: true}))
	defer server.Close()
	request, err := http.NewRequest(http.MethodGet, server.URL, nil)
	require.NoError(t, err)
	request.Header.Set("Accept", "application/openmetrics-text; version=1.0.0")
	client := server.Client()
	defer client.CloseIdleConnections()
	response, err := client.Do(request)
	require.NoError(t, err)
	defer response.Body.Close()
	text, err := io.ReadAll(response.Body)
	require.NoError(t, err)
	require.Equal(t, http.StatusOK, response.StatusCode, string(text))
	return string(text)
}

// requireLines: each of them is a line of the text.
func requireLines(t *testing.T, text string, lines ...string) {
	for _, line := range lines {
		require.Contains(t, "\n"+text, "\n"+line+"\n")
	}
}

func TestLint(t *testing.T) {
	m := holdfastprom.New(&holdfastprom.Options{Class: func(string) string { return "c" }})
	kindtest.Play(m.Observer(), "rlock", "a", watchdog.ErrGone)
	problems, err := testutil.GatherAndLint(register(t, m))
	require.NoError(t, err)
	require.Empty(t, problems)
}

// An alert needs a sample from before the first loss.
func TestCountersBeginAtZero(t *testing.T) {
	text := scrape(t, register(t, holdfastprom.New(nil)))
	for _, kind := range []string{"rlock", "fairlock", "rwlock", "semaphore", "redlock", "election"} {
		requireLines(t, text,
			`holdfast_lock_acquisitions_total{class="",kind="`+kind+`",outcome="asked"} 0.0`,
			`holdfast_lock_acquisitions_total{class="",kind="`+kind+`",outcome="error"} 0.0`,
			`holdfast_lock_losses_total{class="",kind="`+kind+`",reason="silent"} 0.0`,
			`holdfast_lock_losses_total{class="",kind="`+kind+`",reason="gone"} 0.0`,
			`holdfast_lock_renewals_total{class="",kind="`+kind+`",outcome="late"} 0.0`,
			`holdfast_lock_uncertain_total{class="",kind="`+kind+`",operation="release"} 0.0`,
			`holdfast_lock_deadlocks_total{class="",kind="`+kind+`",shape="self"} 0.0`,
			`holdfast_lock_deadlocks_total{class="",kind="`+kind+`",shape="circle"} 0.0`,
			`holdfast_lock_held{class="",kind="`+kind+`"} 0.0`)
	}
	requireLines(t, text, `holdfast_script_errors_total{reason="unanswered"} 0.0`, `holdfast_script_repeats_total 0.0`,
		`holdfast_subscription_losses_total 0.0`, `holdfast_subscription_down 0.0`, `holdfast_events_dropped_total 0.0`)
	require.NotContains(t, text, "_bucket", "no histogram before it is used")

	text = scrape(t, register(t, holdfastprom.New(&holdfastprom.Options{Kinds: []string{"rlock"}})))
	require.Contains(t, text, `kind="rlock"`)
	require.NotContains(t, text, `kind="fairlock"`)
}

func TestWhatIsScraped(t *testing.T) {
	m := holdfastprom.New(nil)
	kindtest.Play(m.Observer(), "rlock", "a", watchdog.ErrGone)
	text := scrape(t, register(t, m))
	requireLines(t, text,
		`holdfast_lock_acquisitions_total{class="",kind="rlock",outcome="handed_on"} 1.0`,
		`holdfast_lock_acquisitions_total{class="",kind="rlock",outcome="refused"} 1.0`,
		`holdfast_lock_contended_total{class="",kind="rlock"} 2.0`,
		`holdfast_lock_wait_duration_seconds_bucket{class="",granted="true",kind="rlock",le="1.0"} 0`,
		`holdfast_lock_wait_duration_seconds_bucket{class="",granted="true",kind="rlock",le="3.0"} 1`,
		`holdfast_lock_wait_duration_seconds_count{class="",granted="false",kind="rlock"} 1`,
		`holdfast_lock_hold_duration_seconds_sum{class="",kind="rlock"} 60.0`,
		`holdfast_lock_losses_total{class="",kind="rlock",reason="gone"} 1.0`,
		`holdfast_lock_renewals_total{class="",kind="rlock",outcome="late"} 1.0`,
		`holdfast_lock_renewal_slack_ratio_count{class="",kind="rlock"} 1`,
		`holdfast_script_duration_seconds_count{script="acquire"} 1`,
		`holdfast_script_errors_total{reason="unanswered"} 1.0`,
		`holdfast_script_repeats_total 1.0`,
		`holdfast_subscription_losses_total 1.0`,
		`holdfast_subscription_down 1.0`,
		`holdfast_events_dropped_total 2.0`,
		`holdfast_lock_deadlocks_total{class="",kind="rlock",shape="self"} 1.0`,
		`holdfast_lock_deadlocks_total{class="",kind="rlock",shape="circle"} 1.0`,
		`holdfast_lock_held{class="",kind="rlock"} 0.0`,
		`holdfast_lock_waiting{class="",kind="rlock"} 0.0`)
}

// Histograms are native as well as classic.
func TestNativeHistograms(t *testing.T) {
	m := holdfastprom.New(nil)
	kindtest.Play(m.Observer(), "rlock", "a", watchdog.ErrGone)
	families, err := register(t, m).Gather()
	require.NoError(t, err)
	histograms := 0
	for _, f := range families {
		for _, metric := range f.GetMetric() {
			if h := metric.GetHistogram(); h != nil {
				histograms++
				require.NotNil(t, h.Schema, f.GetName())
				require.Greater(t, len(h.GetBucket()), 8, f.GetName())
			}
		}
	}
	require.Equal(t, 5, histograms)
}

// A thousand classes do not make a thousand series.
func TestSeriesAreBounded(t *testing.T) {
	m := holdfastprom.New(&holdfastprom.Options{MaxClasses: 5, Kinds: []string{"rlock"},
		Class: func(name string) string { return strings.TrimPrefix(name, "lock ") }})
	for i := range 1000 {
		kindtest.Play(m.Observer(), "rlock", fmt.Sprint("lock ", i), watchdog.ErrGone)
	}
	r := register(t, m)
	n, err := testutil.GatherAndCount(r, "holdfast_lock_held")
	require.NoError(t, err)
	require.Equal(t, 6, n, "five and the others")
	requireLines(t, scrape(t, r),
		`holdfast_lock_losses_total{class="4",kind="rlock",reason="gone"} 1.0`,
		`holdfast_lock_losses_total{class="other",kind="rlock",reason="gone"} 995.0`)
}

// TestHostileClasses: what Class makes of somebody's name is printable in a label.
func TestHostileClasses(t *testing.T) {
	m := holdfastprom.New(&holdfastprom.Options{Class: func(name string) string { return name }})
	for _, text := range hostile.Texts {
		kindtest.Play(m.Observer(), "rlock", text, watchdog.ErrGone)
	}
	hostile.Check(t, "metrics", scrape(t, register(t, m)))
}

func TestExemplars(t *testing.T) {
	type key struct{}
	m := holdfastprom.New(&holdfastprom.Options{Exemplar: func(ctx context.Context) prometheus.Labels {
		if id, ok := ctx.Value(key{}).(string); ok {
			return prometheus.Labels{"trace_id": id}
		}
		return nil
	}})
	o := m.Observer()
	ctx := o.Waiting(context.WithValue(context.Background(), key{}, "t1"), event.Wait{Kind: "rlock", Name: "a"})
	o.Granted(ctx, event.Grant{Kind: "rlock", Name: "a", How: event.Asked, Waited: time.Second})
	o.Ended(ctx, event.End{Kind: "rlock", Name: "a", Reason: holdfast.ErrReleased, Held: time.Second})
	kindtest.Play(o, "rlock", "without", watchdog.ErrGone)
	text := scrape(t, register(t, m))
	require.Contains(t, text, `holdfast_lock_wait_duration_seconds_bucket{class="",granted="true",kind="rlock",le="1.0"} 1 # {trace_id="t1"} 1.0`)
	require.Contains(t, text, `holdfast_lock_hold_duration_seconds_bucket{class="",kind="rlock",le="1.0"} 1 # {trace_id="t1"} 1.0`)
}

// total adds up all series of a metric whose labels include some.
func total(t *testing.T, r *prometheus.Registry, name string, labels ...string) (sum float64) {
	families, err := r.Gather()
	require.NoError(t, err)
	for _, f := range families {
		for _, m := range f.GetMetric() {
			missing := len(labels) / 2
			for _, l := range m.GetLabel() {
				for i := 0; i < len(labels); i += 2 {
					if l.GetName() == labels[i] && l.GetValue() == labels[i+1] {
						missing--
					}
				}
			}
			if f.GetName() == name && missing == 0 {
				sum += m.GetCounter().GetValue() + m.GetGauge().GetValue() + float64(m.GetHistogram().GetSampleCount())
			}
		}
	}
	return sum
}

// storm is what callers saw of locks on a real server.
type storm struct {
	clients              []*holdfast.Client
	granted, refused, up atomic.Int64
}

// once takes a lock in one of many ways, perhaps re-enters, and gives back what it got, or leaves it to the end of the client.
func (s *storm) once(rng *rand.Rand) {
	ctx := context.Background()
	if rng.IntN(4) == 0 {
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeout(ctx, time.Duration(rng.IntN(3000))*time.Microsecond)
		defer cancel()
	}
	c, name := s.clients[rng.IntN(len(s.clients))], "storm:"+string(rune('a'+rng.IntN(3)))
	l := []holdfast.Locker{rlock.New(c, "r"+name), fairlock.New(c, "f"+name), rwlock.New(c, "w"+name).RLocker(),
		rwlock.New(c, "w"+name), semaphore.New(c, "s"+name, 2)}[rng.IntN(5)]
	lock := l.Lock
	if rng.IntN(3) == 0 {
		lock = l.TryLock
	}
	hold, err := lock(ctx, holdfast.Wait(time.Duration(rng.IntN(50))*time.Millisecond))
	if err != nil {
		s.refused.Add(1)
		return
	}
	s.granted.Add(1)
	if inner, err := l.TryLock(hold.Context()); err == nil {
		s.granted.Add(1)
		_ = inner.Unlock(ctx)
	} else {
		s.refused.Add(1)
	}
	if rng.IntN(50) == 0 {
		s.up.Add(1)
		return
	}
	_ = hold.Unlock(ctx)
}

// TestCountsAreExact: after a storm over several kinds, with cancelled calls, re-entries, locks that are
// deleted and holds that only Close ends, each call was counted once and nothing is held or waited for.
func TestCountsAreExact(t *testing.T) {
	server := redistest.Start(t)
	metrics := holdfastprom.New(nil)
	registry := register(t, metrics)
	s := &storm{}
	for range 2 {
		c, err := holdfast.New(server.Client(t), &holdfast.Options{Observer: metrics.Observer()})
		require.NoError(t, err)
		s.clients = append(s.clients, c)
	}
	var wg sync.WaitGroup
	for g := range 8 {
		wg.Go(func() {
			rng := rand.New(rand.NewPCG(uint64(g), 7))
			for i := range 60 {
				s.once(rng)
				if g == 0 && i%20 == 0 {
					server.Command(t, "FLUSHALL")
				}
			}
		})
	}
	wg.Wait()
	require.Positive(t, s.granted.Load())
	require.Positive(t, s.refused.Load())
	require.Zero(t, total(t, registry, "holdfast_lock_waiting"))
	require.LessOrEqual(t, total(t, registry, "holdfast_lock_held"), float64(s.up.Load()))
	for _, c := range s.clients {
		require.NoError(t, c.Close(context.Background()))
	}
	require.Zero(t, total(t, registry, "holdfast_lock_held"))
	require.Zero(t, total(t, registry, "holdfast_lock_waiting"))
	require.Zero(t, total(t, registry, "holdfast_lock_oldest_hold_age_seconds"))
	require.Zero(t, total(t, registry, "holdfast_events_dropped_total"))
	require.Equal(t, float64(s.granted.Load()), total(t, registry, "holdfast_lock_wait_duration_seconds", "granted", "true"))
	require.Equal(t, float64(s.refused.Load()), total(t, registry, "holdfast_lock_wait_duration_seconds", "granted", "false"))
	require.Equal(t, float64(s.granted.Load()), total(t, registry, "holdfast_lock_hold_duration_seconds"))
	require.Equal(t, float64(s.granted.Load()+s.refused.Load()), total(t, registry, "holdfast_lock_acquisitions_total"))
	require.Positive(t, total(t, registry, "holdfast_script_duration_seconds", "script", "acquire"))
}

// TestAnOutage: calls, scripts, renewals and a waiter's subscription say that Redis is gone; the hold is lost by the clock.
func TestAnOutage(t *testing.T) {
	server := redistest.Start(t)
	metrics := holdfastprom.New(nil)
	registry := register(t, metrics)
	var clients []*holdfast.Client
	for range 2 {
		clients = append(clients, kindtest.NewClient(t, server.Client(t), &holdfast.Options{Lease: 3 * time.Second,
			RetryBudget: 10 * time.Millisecond, Observer: metrics.Observer()}))
	}
	ctx := context.Background()
	hold := kindtest.Take(ctx, t, rlock.New(clients[0], "a").Lock)
	waiter := kindtest.Begin(ctx, t, rlock.New(clients[1], "a").Lock)
	require.Eventually(t, func() bool {
		return server.Command(t, "PUBSUB", "NUMSUB", "redisson_lock__channel:{a}").([]any)[1] == int64(1)
	}, 30*time.Second, 5*time.Millisecond)
	server.Kill()
	<-hold.Context().Done()
	require.ErrorIs(t, waiter.Err(), holdfast.ErrUnavailable)
	require.ErrorIs(t, kindtest.Err(rlock.New(clients[0], "b").TryLock(ctx)), holdfast.ErrUnavailable)
	require.Eventually(t, func() bool {
		return total(t, registry, "holdfast_lock_losses_total", "reason", "silent") == 1 &&
			total(t, registry, "holdfast_subscription_losses_total") >= 1
	}, 30*time.Second, 5*time.Millisecond)
	require.Equal(t, 2.0, total(t, registry, "holdfast_lock_acquisitions_total", "outcome", "unavailable"))
	require.Positive(t, total(t, registry, "holdfast_script_errors_total", "reason", "unanswered"))
	require.Positive(t, total(t, registry, "holdfast_lock_renewals_total", "outcome", "failed"))
	require.Zero(t, total(t, registry, "holdfast_lock_held"))
	server.Restart() // so that go-redis's goroutine that looks for it ends before leaks are looked for
	require.Eventually(t, func() bool {
		stacks := make([]byte, 1<<20)
		return !strings.Contains(string(stacks[:runtime.Stack(stacks, true)]), "pool.(*ConnPool).tryDial")
	}, 30*time.Second, 10*time.Millisecond)
}

func TestMain(m *testing.M) { redistest.Main(m) }
