package holdfastweb

import (
	"fmt"
	"log/slog"
	"net/http"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/holdfast-go/holdfast/internal/printable"
)

// Options change what the page shows and what people may do. The zero value, or nil, is a page that only
// reads.
type Options struct {
	// Permit says whether the sender of a request may end holds of the lock name. who names the sender, for
	// the log. The page calls Permit when it shows a lock, and again when a sender asks to end a hold.
	// Permit must not change anything. Default nil: nobody may end a hold.
	Permit func(r *http.Request, name string) (who string, ok bool)
	// Logger receives each attempt to end a hold: who, which hold, and the result. Default: silent.
	Logger *slog.Logger
	// TrustedOrigins are further origins whose pages may send forms here, as "https://admin.example.com".
	// They are for a proxy that changes the Host header. Default: only the page's own origin.
	TrustedOrigins []string
	// Title is the heading of the page, for example the name of the environment. Default "Locks".
	Title string

	// Masters are further independent masters, those of quorum locks. The page lists the locks of each by
	// themselves.
	Masters []redis.UniversalClient
	// Match limits the page to names of a pattern, as in KEYS of Redis. The page neither shows nor ends
	// others. Default: all.
	Match string
	// Redisson adds the locks that only clients of Redisson have used. That takes a second pass over all keys.
	Redisson bool
	// ClassicPubSub says that the clients have the option of that name. It matters in a cluster only.
	ClassicPubSub bool

	// Share is the greatest part of a server's time that the page takes, counted by how long the server
	// takes to answer. Default 0.01; at most 1.
	Share float64
	// Every is the shortest time between two updates of a live page. Default one second; at least 100 ms.
	Every time.Duration
	// MaxLocks is how many locks the page keeps for the list, at most. The page says if there are more.
	// Default 20 000. A browser never gets more than Rows of them.
	MaxLocks int
	// Rows is how many locks a page lists. Default 50; at most 500.
	Rows int
	// MaxViewers is how many live pages there are at a time. Further ones are not live, and say so.
	// Default 100.
	MaxViewers int
}

// The bounds of the settings.
const (
	defaultShare, defaultLocks, defaultRows, maxRows, defaultViewers = 0.01, 20_000, 50, 500, 100

	defaultEvery, minEvery = time.Second, 100 * time.Millisecond
)

// complete checks the options, and fills in the defaults.
func (o *Options) complete() error {
	switch {
	case o.Share < 0 || o.Share > 1:
		return fmt.Errorf("holdfastweb: Share is %v; use a part of the time above 0 and at most 1, as 0.01", o.Share)
	case o.Every != 0 && o.Every < minEvery:
		return fmt.Errorf("holdfastweb: Every is %v; use at least %v, or 0 for %v", o.Every, minEvery, defaultEvery)
	case o.MaxLocks < 0:
		return fmt.Errorf("holdfastweb: MaxLocks is %d; use a number above 0, or 0 for %d", o.MaxLocks, defaultLocks)
	case o.Rows < 0 || o.Rows > maxRows:
		return fmt.Errorf("holdfastweb: Rows is %d; use 1 to %d, or 0 for %d", o.Rows, maxRows, defaultRows)
	case o.MaxViewers < 0:
		return fmt.Errorf("holdfastweb: MaxViewers is %d; use a number above 0, or 0 for %d", o.MaxViewers, defaultViewers)
	}
	fill(&o.Title, "Locks")
	fill(&o.Share, defaultShare)
	fill(&o.Every, defaultEvery)
	fill(&o.MaxLocks, defaultLocks)
	fill(&o.Rows, defaultRows)
	fill(&o.MaxViewers, defaultViewers)
	fill(&o.Logger, slog.New(slog.DiscardHandler))
	o.Logger = slog.New(printable.Handler(o.Logger.Handler()))
	return nil
}

func fill[T comparable](field *T, value T) {
	var zero T
	if *field == zero {
		*field = value
	}
}

// sameSite refuses what pages of other sites send.
func (o *Options) sameSite() (*http.CrossOriginProtection, error) {
	p := http.NewCrossOriginProtection()
	for _, origin := range o.TrustedOrigins {
		if err := p.AddTrustedOrigin(origin); err != nil {
			return nil, fmt.Errorf("holdfastweb: TrustedOrigins has %q: %w; use a scheme and a host, as in https://admin.example.com", origin, err)
		}
	}
	return p, nil
}
