package doctor

import (
	"context"
	"fmt"
	"strings"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/holdfast-go/holdfast/cmd/holdfast/internal/words"
	"github.com/holdfast-go/holdfast/inspect"
	"github.com/holdfast-go/holdfast/internal/printable"
	"github.com/holdfast-go/holdfast/lua"
)

// Deadlocks looks for circles of waits: an error for each, or one finding that there is none to be seen. Of
// several masters of a quorum each is asked, because the clients say there what they say whose first master it is.
// flags are those with which another command reaches the same servers.
func Deadlocks(ctx context.Context, rdbs []redis.UniversalClient, flags string) (found []Finding, err error) {
	defer func() {
		for i := range found {
			found[i].Check = "deadlock"
		}
	}()
	for _, rdb := range rdbs {
		i, err := inspect.New(rdb, nil)
		if err != nil {
			return nil, err
		}
		circles, err := i.Deadlocks(ctx)
		switch {
		case lua.IsDenied(err):
			return hidden("waits could not be read", err, "there may be deadlocks that this check cannot see", "+scan, +get, and the other permissions of a user that inspects locks (docs/security.md)"), nil
		case err != nil:
			return nil, err
		}
		for _, d := range circles {
			found = append(found, deadlock(d, addressOf(rdb), flags))
		}
	}
	if len(found) == 0 {
		return ok("no circle among the long waits whose callers hold other locks"), nil
	}
	return found, nil
}

func deadlock(d inspect.Deadlock, server, flags string) Finding {
	parts := make([]string, len(d))
	for i, b := range d {
		who := printable.Name(b.Client)
		if b.Label != "" {
			who = fmt.Sprintf("%s (client %s)", printable.Name(b.Label), who)
		}
		parts[i] = fmt.Sprintf("%s has %s, token %d, and has waited %v for %s", who, printable.Quote(b.Has), b.Token,
			b.Waited.Round(time.Second/10), printable.Quote(b.Name))
	}
	waits := "a wait for itself"
	if len(d) > 1 {
		waits = fmt.Sprintf("%d waits in a circle", len(d))
	}
	return Finding{
		Level: Error, Server: server, Found: waits + ": " + strings.Join(parts, "; "),
		Means:   "none of them ends by itself, unless it has a limit, and what they have stays taken until then",
		Remedy:  "end one: restart a client, or take a lock from it by the command below; then see docs/operating.md on deadlocks",
		Command: words.Command("unlock --force", fmt.Sprintf(" --token %d%s", d[0].Token, flags), d[0].Has),
	}
}
