// Package web_test looks at the page of locks in a real browser, as people have it: live, without JavaScript, on a telephone,
// in the dark. It is in this module because what drives a browser is no dependency for users of holdfastweb.
//
// The browser is chromium-headless-shell or chromium of the PATH. Without one the tests are skipped
// loudly, and fail in CI. Not here: what can be seen in answers alone, which holdfastweb tests itself.
package web_test

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/chromedp/cdproto/log"
	"github.com/chromedp/cdproto/runtime"
	"github.com/chromedp/chromedp"
	"github.com/stretchr/testify/require"

	"github.com/holdfast-go/holdfast/internal/testkit/redistest"
)

// patience is how long a test waits for what must come, on however busy a machine.
const patience = 15 * time.Second

func TestMain(m *testing.M) { redistest.Main(withBrowser{m}) }

// withBrowser ends the browser before leaks are looked for.
type withBrowser struct{ m *testing.M }

func (w withBrowser) Run() int {
	defer func() {
		if browser.stop != nil {
			browser.stop()
		}
	}()
	return w.m.Run()
}

// browser is the one that all tests share, started by the first of them.
var browser struct {
	once sync.Once
	ctx  context.Context
	stop func()
	err  error
}

// program finds a browser, empty if there is none.
func program() string {
	for _, name := range []string{"chromium-headless-shell", "chromium"} {
		if path, err := exec.LookPath(name); err == nil {
			return path
		}
	}
	return ""
}

func startBrowser(bin string) {
	dir, err := os.MkdirTemp("", "holdfast-browser-")
	if err != nil {
		browser.err = err
		return
	}
	// --no-sandbox: the tests run as root in containers, and the pages are our own.
	alloc, free := chromedp.NewExecAllocator(context.Background(), chromedp.ExecPath(bin), chromedp.UserDataDir(filepath.Join(dir, "profile")),
		chromedp.Headless, chromedp.NoSandbox, chromedp.DisableGPU, chromedp.NoFirstRun, chromedp.Flag("disable-quic", true),
		chromedp.Flag("disable-background-networking", true), chromedp.Flag("disable-component-update", true), chromedp.Flag("disable-sync", true))
	ctx, end := chromedp.NewContext(alloc)
	browser.ctx = ctx
	browser.stop = func() {
		end()
		free()
		_ = os.RemoveAll(dir) // a directory left over in the place for such fails no test
	}
	browser.err = chromedp.Do(ctx)
}

// tab is a window of the browser. What the page complains of fails the test.
type tab struct {
	*testing.T
	ctx context.Context

	mu       sync.Mutex // guards the rest
	troubles []string
	expected []string // parts of complaints that belong to the test
}

func newTab(t *testing.T) *tab {
	t.Helper()
	bin := program()
	if bin == "" {
		redistest.Unavailable(t, "there is no chromium-headless-shell or chromium on the PATH; install one, as scripts/test.sh does")
	}
	browser.once.Do(func() { startBrowser(bin) })
	require.NoError(t, browser.err)
	b := &tab{T: t}
	ctx, end := chromedp.NewContext(browser.ctx, chromedp.WithListener(b.hear))
	ctx, cancel := context.WithTimeout(ctx, 6*patience)
	b.ctx = ctx
	t.Cleanup(func() {
		cancel()
		end()
		for _, trouble := range b.complaints() {
			t.Errorf("the browser complains: %s", trouble)
		}
	})
	return b
}

// hear notes what is written to the console: errors, exceptions, and what the policy of the page refuses.
func (b *tab) hear(ev any) {
	text := ""
	switch e := ev.(type) {
	case *runtime.EventExceptionThrown:
		text = fmt.Sprintf("exception: %s %v", e.ExceptionDetails.Text, e.ExceptionDetails.Exception)
	case *log.EventEntryAdded:
		if e.Entry.Level == log.EntryLevelError || e.Entry.Level == log.EntryLevelWarning {
			text = fmt.Sprintf("%s: %s (%s)", e.Entry.Source, e.Entry.Text, e.Entry.URL)
		}
	case *runtime.EventConsoleAPICalled:
		text = fmt.Sprintf("console: %v", e.Args)
	}
	if text != "" {
		b.mu.Lock()
		defer b.mu.Unlock()
		b.troubles = append(b.troubles, text)
	}
}

// expect says that complaints with this text are no failure.
func (b *tab) expect(text string) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.expected = append(b.expected, text)
}

func (b *tab) complaints() (list []string) {
	b.mu.Lock()
	defer b.mu.Unlock()
	for _, trouble := range b.troubles {
		if !slices.ContainsFunc(b.expected, func(text string) bool { return strings.Contains(trouble, text) }) {
			list = append(list, trouble)
		}
	}
	return list
}

func (b *tab) open(url string) { require.NoError(b, chromedp.Do(b.ctx, chromedp.Navigate(url))) }

func (b *tab) click(selector string) {
	require.NoError(b, chromedp.Do(b.ctx, chromedp.Click(chromedp.CSS(selector))), selector)
}

// is evaluates a condition in the page. What cannot be evaluated is not so yet: the page may be changing.
func (b *tab) is(condition string) bool {
	ok, err := chromedp.Run(b.ctx, chromedp.Evaluate[bool]("Boolean("+condition+")"))
	return err == nil && ok
}

// until waits for a condition in the page.
func (b *tab) until(condition string) {
	b.Helper()
	if !redistest.Within(patience, func() bool { return b.is(condition) }) {
		b.Fatalf("it does not come to this: %s\n%s", condition, b.text("body"))
	}
}

// text is what people read.
func (b *tab) text(selector string) string {
	text, err := chromedp.Run(b.ctx, chromedp.Evaluate[string](fmt.Sprintf("document.querySelector(%q).innerText", selector)))
	require.NoError(b, err, selector)
	return text
}

func (b *tab) reads(selector, text string) {
	b.until(fmt.Sprintf("(document.querySelector(%q) || {innerText: ''}).innerText.includes(%q)", selector, text))
}
