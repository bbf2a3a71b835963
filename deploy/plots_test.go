package deploy

import (
	"context"
	"encoding/xml"
	"errors"
	"flag"
	"fmt"
	"html"
	"io"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/prometheus/model/labels"
	"github.com/prometheus/prometheus/promql"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	otelprom "go.opentelemetry.io/otel/exporters/prometheus"
	"go.opentelemetry.io/otel/sdk/metric"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/event"
	"github.com/holdfast-go/holdfast/fairlock"
	"github.com/holdfast-go/holdfast/holdfastotel"
	"github.com/holdfast-go/holdfast/holdfastprom"
	"github.com/holdfast-go/holdfast/internal/testkit/kindtest"
	"github.com/holdfast-go/holdfast/internal/testkit/redistest"
	"github.com/holdfast-go/holdfast/rlock"
)

var plots = flag.String("plots", "", "write the pictures of docs/operating.md into this directory, which takes a minute")

// pictures are panels of the dashboard, by the file that shows them.
var pictures = map[string]string{
	"acquisitions.svg": "Calls that ended, by outcome",
	"waiting.svg":      "Waiting for a grant",
	"age.svg":          "Age of the oldest",
	"slack.svg":        "Lease left at renewals",
}

// TestPlots draws what the dashboard shows of a service whose Redis stands still for a while, and one of
// whose locks is deleted. Without -plots it looks only whether the panels are there, as it is not
// the test of anything that the run of the dashboard does not test.
func TestPlots(t *testing.T) {
	panels := map[string]panel{}
	for _, p := range readDashboard(t).Panels {
		panels[p.Title] = p
	}
	for file, title := range pictures {
		require.NotEmpty(t, panels[title].Targets, title)
		_, err := os.Stat("../docs/operating/" + file)
		require.NoError(t, err)
	}
	if *plots == "" {
		return
	}
	r, from, to := minute(t)
	engine := newEngine(t)
	for file, title := range pictures {
		var lines []string
		for _, target := range panels[title].Targets {
			text := strings.ReplaceAll(asGrafana(target.Expr), "[2m]", "[5s]") // a scrape a second, in place of one in 15
			name := strings.NewReplacer("{{kind}}", "", "{{class}}", "", "{{outcome}}", "").Replace(target.Legend)
			lines = append(lines, `label_replace(`+text+`, "line", "`+strings.TrimSpace(name)+`", "", "")`)
		}
		q, err := engine.NewRangeQuery(context.Background(), r.memory, nil, strings.Join(lines, " or "), from, to, time.Second)
		require.NoError(t, err)
		result := q.Exec(context.Background())
		require.NoError(t, result.Err)
		matrix, err := result.Matrix()
		require.NoError(t, err)
		matrix = slices.DeleteFunc(matrix, func(s promql.Series) bool { // kinds that the service does not use
			return !slices.ContainsFunc(s.Floats, func(p promql.FPoint) bool { return p.F > 0 })
		})
		require.NotEmpty(t, matrix, title)
		require.NoError(t, os.WriteFile(filepath.Join(*plots, file), []byte(draw(title, matrix)), 0o600))
		q.Close()
	}
}

// minute is a minute of a service with ten goroutines and three names of locks, and a report that takes all the time. Redis
// stands still for three seconds from the 20th on; the report's lock is deleted at 45.
func minute(t *testing.T) (r *run, from, to time.Time) {
	r = &run{memory: newMemory()}
	server := redistest.Start(t)
	observer := r.observe(t)
	clients := []*holdfast.Client{client(t, server, observer), client(t, server, observer)}
	ctx, stop := context.WithCancel(context.Background())
	report := kindtest.Take(ctx, t, rlock.New(clients[0], "report:1").Lock)
	var wg sync.WaitGroup
	for i := range 10 {
		wg.Go(func() {
			for n := i; ctx.Err() == nil; n++ {
				l := rlock.New(clients[i%2], "orders:"+string(rune('a'+n%3)))
				if h, err := l.Lock(ctx, holdfast.Wait(100*time.Millisecond)); err == nil {
					<-time.After(10 * time.Millisecond)
					_ = h.Unlock(context.Background())
				}
			}
		})
	}
	second := time.NewTicker(time.Second)
	defer second.Stop()
	from = time.Now()
	for n := range 60 {
		switch n {
		case 20:
			server.Pause()
			time.AfterFunc(3*time.Second, server.Resume)
		case 45:
			server.Command(t, "DEL", "report:1")
		}
		to = <-second.C
		r.scrapeAt(t, to)
	}
	stop()
	wg.Wait()
	_ = report.Unlock(context.Background())
	return r, from, to
}

// Of the drawing, in pixels.
const (
	width, height             = 720, 220
	left, right, top, bottom  = 56, 170, 30, 24
	plotWidth, plotHeight     = width - left - right, height - top - bottom
	grey, axis                = "#777", "#ccc"
	legendLine, legendMaximum = 16, 10
)

var colours = []string{"#1f77b4", "#d62728", "#2ca02c", "#ff7f0e", "#9467bd", "#8c564b", "#17becf", "#7f7f7f"}

// draw makes a picture of the lines of a query: a step is a sample, and gaps are left where there is none.
func draw(title string, m promql.Matrix) string {
	first, last, most := int64(math.MaxInt64), int64(0), 0.0
	for _, s := range m {
		for _, p := range s.Floats {
			first, last = min(first, p.T), max(last, p.T)
			if !math.IsNaN(p.F) {
				most = max(most, p.F)
			}
		}
	}
	most = max(most*1.05, 1e-3)
	var b strings.Builder
	fmt.Fprintf(&b, `<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 %d %d" font-family="sans-serif" font-size="11">`+"\n", width, height)
	fmt.Fprintf(&b, `<rect width="%d" height="%d" fill="white"/><text x="%d" y="18" font-size="13" fill="#222">%s</text>`+"\n",
		width, height, left, html.EscapeString(title))
	for i := range 5 {
		y := top + plotHeight - i*plotHeight/4
		fmt.Fprintf(&b, `<line x1="%d" x2="%d" y1="%d" y2="%d" stroke="%s"/><text x="%d" y="%d" text-anchor="end" fill="%s">%.3g</text>`+"\n",
			left, left+plotWidth, y, y, axis, left-6, y+4, grey, most*float64(i)/4)
	}
	span := max(last-first, 1)
	for i := range 5 {
		fmt.Fprintf(&b, `<text x="%d" y="%d" text-anchor="middle" fill="%s">%d s</text>`+"\n", left+i*plotWidth/4, height-6, grey,
			span*int64(i)/4/1000)
	}
	for i, s := range m {
		colour := colours[i%len(colours)]
		fmt.Fprintf(&b, `<path d="%s" fill="none" stroke="%s" stroke-width="1.5"/>`+"\n", path(s.Floats, first, span, most), colour)
		if i < legendMaximum {
			fmt.Fprintf(&b, `<text x="%d" y="%d" fill="%s">%s</text>`+"\n", left+plotWidth+10, top+10+i*legendLine, colour,
				html.EscapeString(legend(s.Metric)))
		}
	}
	return b.String() + "</svg>\n"
}

// path draws a line through the samples, with a gap at each that is no number.
func path(points []promql.FPoint, first, span int64, most float64) string {
	var b strings.Builder
	pen := "M"
	for _, p := range points {
		if math.IsNaN(p.F) {
			pen = "M"
			continue
		}
		fmt.Fprintf(&b, "%s%.1f %.1f", pen, left+float64(p.T-first)/float64(span)*plotWidth, top+plotHeight-p.F/most*plotHeight)
		pen = "L"
	}
	return b.String()
}

func legend(l labels.Labels) string {
	var values []string
	l.Range(func(l labels.Label) { values = append(values, l.Value) })
	if len(values) == 0 {
		return "all"
	}
	return strings.Join(values, " ")
}

// TestPicturesAreXML: what is drawn can be shown, whatever the labels and the numbers are.
func TestPicturesAreXML(t *testing.T) {
	picture := draw("a < b", promql.Matrix{{Metric: labels.FromStrings("x", "<&>"),
		Floats: []promql.FPoint{{T: 0, F: 1}, {T: 1000, F: math.NaN()}, {T: 2000, F: 3}}}, {}})
	d := xml.NewDecoder(strings.NewReader(picture))
	for {
		_, err := d.Token()
		if errors.Is(err, io.EOF) {
			break
		}
		require.NoError(t, err)
	}
	require.Contains(t, picture, "&lt;&amp;&gt;")
	require.NotContains(t, picture, "NaN")
	require.Equal(t, 2, strings.Count(picture, "M"), "a gap")
}

// run is a service on a real server whose metrics are scraped.
type run struct {
	prom, otel *prometheus.Registry
	observer   *event.Observer // of both exporters
	memory     *memory         // what Prometheus has scraped of prom
	scrapes    int
}

// lease is short, so that renewals come soon, and long enough that a busy machine loses no lock.
const lease = 6 * time.Second

func class(name string) string {
	c, _, _ := strings.Cut(name, ":")
	return c
}

// observe makes an observer for both exporters, which therefore hear of the same events.
func (r *run) observe(t *testing.T) *event.Observer {
	metrics := holdfastprom.New(&holdfastprom.Options{Class: class})
	r.prom = prometheus.NewPedanticRegistry()
	require.NoError(t, r.prom.Register(metrics))
	r.otel = prometheus.NewRegistry()
	exporter, err := otelprom.New(otelprom.WithRegisterer(r.otel), otelprom.WithoutScopeInfo(), otelprom.WithoutTargetInfo())
	require.NoError(t, err)
	provider := metric.NewMeterProvider(metric.WithReader(exporter))
	t.Cleanup(func() { require.NoError(t, provider.Shutdown(context.Background())) })
	telemetry, err := holdfastotel.New(&holdfastotel.Options{MeterProvider: provider, Class: class})
	require.NoError(t, err)
	r.observer = event.Join(metrics.Observer(), telemetry.Observer())
	return r.observer
}

// value is one number of the registry, by name and labels; of a histogram, how many were counted.
func (r *run) value(t *testing.T, name string, want map[string]string) (sum float64) {
	families, err := r.prom.Gather()
	require.NoError(t, err)
	for _, f := range families {
		if f.GetName() != name {
			continue
		}
		for _, m := range f.GetMetric() {
			fits := 0
			for _, l := range m.GetLabel() {
				if v, ok := want[l.GetName()]; ok && v == l.GetValue() {
					fits++
				}
			}
			if fits == len(want) {
				sum += m.GetCounter().GetValue() + m.GetGauge().GetValue() + float64(m.GetHistogram().GetSampleCount())
			}
		}
	}
	return sum
}

// until waits for a number.
func (r *run) until(t *testing.T, atLeast float64, name string, labels map[string]string) {
	require.Eventually(t, func() bool { return r.value(t, name, labels) >= atLeast }, 30*time.Second, 5*time.Millisecond,
		"%s %v", name, labels)
}

// client makes one of the service's.
func client(t *testing.T, server *redistest.Server, o *event.Observer) *holdfast.Client {
	return kindtest.NewClient(t, server.Client(t), &holdfast.Options{Lease: lease, Observer: o})
}

// live has locks granted, contended, handed off, renewed, refused and lost, and scrapes before, in the middle and at the end.
func live(t *testing.T) *run {
	t.Helper()
	r := &run{memory: newMemory()}
	server := redistest.Start(t)
	observer := r.observe(t)
	one, two := client(t, server, observer), client(t, server, observer)
	ctx := context.Background()
	r.scrape(t)

	orders := rlock.New(one, "orders:1")
	hold := kindtest.Lock(t, orders)
	kindtest.Refused(ctx, t, rlock.New(two, "orders:1").TryLock)
	kindtest.Refused(ctx, t, rlock.New(two, "orders:1").Lock, holdfast.Wait(time.Millisecond))
	kindtest.Unlock(t, kindtest.Take(hold.Context(), t, orders.Lock))

	var waiters sync.WaitGroup
	for _, c := range []*holdfast.Client{one, one, two} {
		waiters.Go(func() { assert.NoError(t, kindtest.Pair(ctx, rlock.New(c, "orders:1"))) })
	}
	fair := kindtest.Lock(t, fairlock.New(two, "mail:1"))
	r.until(t, 3, "holdfast_lock_waiting", map[string]string{"kind": "rlock", "class": "orders"})
	r.until(t, 2, "holdfast_lock_renewals_total", map[string]string{"outcome": "in_time"})
	require.Equal(t, 1.0, r.value(t, "holdfast_lock_held", map[string]string{"kind": "rlock", "class": "orders"}))
	require.Equal(t, 1.0, r.value(t, "holdfast_lock_held", map[string]string{"kind": "fairlock", "class": "mail"}))
	r.scrape(t)

	require.NoError(t, hold.Unlock(ctx))
	waiters.Wait()
	server.Command(t, "DEL", "mail:1")
	<-fair.Context().Done()
	require.ErrorIs(t, fair.Unlock(ctx), holdfast.ErrLost)
	r.until(t, 1, "holdfast_lock_losses_total", map[string]string{"kind": "fairlock", "reason": "gone"})
	require.Zero(t, r.value(t, "holdfast_lock_held", nil))
	require.Zero(t, r.value(t, "holdfast_lock_waiting", nil))
	r.scrape(t)
	return r
}
