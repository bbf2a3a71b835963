package doctor

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/redis/go-redis/v9"

	"github.com/holdfast-go/holdfast/lua"
)

// permissions tries each command, key and channel that locks use, on a name that nobody has. ACL
// DRYRUN needs a permission of its own, is younger than many servers, and does not look into scripts.
func permissions(ctx context.Context, p *patient) []Finding {
	t := try(ctx, p)
	if t.err != nil {
		return []Finding{{
			Level: Unknown, Found: fmt.Sprintf("permissions could not be tried: %v", t.err),
			Means: "what this user may not do fails when it is needed",
		}}
	}
	var found []Finding
	var fine []string
	for _, k := range needs(p) {
		missing, dear := t.missing(k.essential), t.missing(k.useful)
		switch {
		case len(missing) > 0:
			level, means := Note, cmp.Or(k.without, "this user cannot use "+k.kind)
			if k.kind == plainKind {
				level = Error
			}
			found = append(found, Finding{
				Level: level, Found: k.kind + " lacks " + strings.Join(missing, " "), Means: means,
				Remedy: p.narrow(missing) + "ACL SETUSER " + t.user + ", followed by what it lacks, for the kinds that it uses",
			})
		case len(dear) > 0:
			found = append(found, Finding{
				Level: Note, Found: k.kind + " lacks " + strings.Join(dear, " "),
				Means:  "it works without; refusals fill the ACL log, and a lock goes from process to process every 10 ms",
				Remedy: "ACL SETUSER " + t.user + ", followed by what it lacks",
			})
		default:
			fine = append(fine, k.kind)
		}
	}
	if len(t.untried) > 0 {
		found = append(found, Finding{
			Level: Unknown, Found: "not tried, as what they make could not be deleted: " + strings.Join(t.untried, " "),
			Means: "if they are refused too, locks do not work", Remedy: "give this user +del, and run this again",
		})
	}
	if len(fine) > 0 {
		found = append(ok("this user may do what is needed by %s", strings.Join(fine, ", ")), found...)
	}
	return found
}

// narrow is for a user whose locks have names with a beginning of their own, as most have.
func (p *patient) narrow(missing []string) string {
	keys := func(m string) bool { return m[0] == '~' || m[0] == '&' }
	if p.Prefix != "" || !slices.ContainsFunc(missing, keys) {
		return ""
	}
	return "run this with --prefix if the names of this user's locks begin with one; else "
}

// trial is what came of trying.
type trial struct {
	user    string
	denied  map[string]bool // permissions as ACL SETUSER has them
	untried []string
	err     error // the server does not answer
}

func (t *trial) missing(of []string) (missing []string) {
	for _, permission := range of {
		if t.denied[permission] {
			missing = append(missing, permission)
		}
	}
	return missing
}

// try sends each command on the keys of the probe.
func try(ctx context.Context, p *patient) *trial {
	t := &trial{user: userOf(ctx, p), denied: map[string]bool{}}
	t.commands(ctx, p)
	t.keys(ctx, p)
	t.channels(ctx, p)
	return t
}

func userOf(ctx context.Context, p *patient) string {
	if name, err := p.node.Do(ctx, "acl", "whoami").Text(); err == nil {
		return name
	}
	if name := p.node.Options().Username; name != "" {
		return name
	}
	return "default"
}

// note keeps an outcome. It reports whether the server has let the command itself through: the command
// is looked at before its keys are.
func (t *trial) note(permission string, err error) bool {
	switch {
	case err == nil, errors.Is(err, redis.Nil):
		return true
	case !refused(err):
		if t.err == nil {
			t.err = err
		}
		return false
	case !lua.IsDenied(err) || aboutKeys(err):
		return true // what it says of wrong types, unknown scripts and the like is no refusal
	}
	t.denied[permission] = true
	return false
}

// aboutKeys reports whether a refusal is one of keys or channels, in the words of any version.
func aboutKeys(err error) bool {
	text := err.Error()
	return strings.Contains(text, "access a key") || strings.Contains(text, "access one of the keys") ||
		strings.Contains(text, "access at least one of the keys") || strings.Contains(text, "access one of the channels") ||
		strings.Contains(text, "access a channel")
}

// commands tries those that change nothing first, and then those that make a key, together with one
// that takes it away again.
func (t *trial) commands(ctx context.Context, p *patient) {
	for _, c := range harmless(p) {
		t.note(c.permission, p.node.Do(ctx, c.args...).Err())
	}
	erase := []any{"del", p.probe}
	if t.denied["+del"] {
		if erase = []any{"pexpire", p.probe, 1}; t.denied["+pexpire"] {
			erase = nil
		}
	}
	for _, c := range makers(p) {
		if erase == nil {
			t.untried = append(t.untried, c.permission)
			continue
		}
		pipe := p.node.Pipeline() // one packet: the server gets both, or neither
		made := pipe.Do(ctx, c.args...)
		pipe.Do(ctx, erase...)
		_, _ = pipe.Exec(ctx) // the errors are the commands' own
		t.note(c.permission, made.Err())
	}
}

// keys tries one command on all keys, which is one that this user may send.
func (t *trial) keys(ctx context.Context, p *patient) {
	send := []string{"get", "pttl", "hlen", "hgetall", "del"}
	at := slices.IndexFunc(send, func(name string) bool { return !t.denied["+"+name] })
	if at < 0 {
		return // then it is the commands that are missing
	}
	for _, key := range probeKeys(p) {
		if err := p.node.Do(ctx, send[at], key.name).Err(); err != nil && refused(err) && lua.IsDenied(err) {
			t.denied[key.permission] = true
		}
	}
}

// channels publishes where nobody listens.
func (t *trial) channels(ctx context.Context, p *patient) {
	command := publishWith(p)
	if t.denied["+"+command] {
		return
	}
	for _, c := range probeChannels(p) {
		if err := p.node.Do(ctx, command, c.name, "holdfast doctor").Err(); err != nil && refused(err) && lua.IsDenied(err) {
			t.denied[c.permission] = true
		}
	}
}
