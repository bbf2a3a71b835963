package keys

import (
	"regexp"
	"strings"
)

// InspectKeys is how many keys [Inspect] returns.
const InspectKeys = 11

// Inspect returns the keys that a lock of any kind may have, in the order in which the script inspect
// takes them. The last one is the other name that has the same derived keys, or the name itself.
func Inspect(name string) [InspectKeys]string {
	k, rw, p := For(name), ForReadWrite(name), ForPermits(name)
	said, _ := Election(name)
	return [...]string{name, k.Token, k.Queue, k.Deadlines, said, p.Ends, p.Queue, p.Places, p.Wants, rw.Writers, twin(name)}
}

// InspectChannels returns the channels of a lock of any kind, in the order in which the script
// inspect takes them. sharded says that it is sharded pub/sub that is asked about.
func InspectChannels(name string, sharded bool) [4]string {
	l := ForLatch(name)
	latch := l.Channel
	if sharded {
		latch = l.Sharded
	}
	return [...]string{For(name).Channel, ForReadWrite(name).Channel, ForPermits(name).Channel, latch}
}

// twin is the other name whose derived keys are the same: "a" and "{a}" have one token, and two
// hashes. A name without one is its own.
func twin(name string) string {
	if !strings.ContainsAny(name, "{}") {
		return "{" + name + "}"
	}
	if inner, ok := bare(name); ok {
		return inner
	}
	return name
}

// bare takes off the braces that a derived key puts around a name which has none.
func bare(name string) (inner string, ok bool) {
	if len(name) < 3 || name[0] != '{' || name[len(name)-1] != '}' {
		return name, false
	}
	if inner = name[1 : len(name)-1]; strings.ContainsAny(inner, "{}") {
		return name, false // a name of two tags, such as "{a}:{b}", is spelled as it is
	}
	return inner, true
}

// latchCalls is what the keys of latches begin with, beside their own: of the one that says what counts the number, and of
// those by which calls are remembered.
const latchCalls = latchCallPrefix + ":"

// Search is a pattern for SCAN that finds the keys of which [Named] tells the names of locks. It
// finds others too. match is a pattern for the names, as Redis takes them; empty: all names.
//
// One pattern for two kinds of keys, because each pass over the keys costs the server as much again.
func Search(match string) string {
	pattern := either("redisson_lock", "holdfast_latc") + "*"
	if match == "" || match == "*" {
		return pattern
	}
	return pattern + match + "*" // derived keys have the name in them as it is
}

// either is a pattern for two texts of one length.
func either(a, b string) string {
	var p strings.Builder
	for i := range len(a) {
		if a[i] == b[i] {
			p.WriteByte(a[i])
			continue
		}
		p.WriteString("[" + a[i:i+1] + b[i:i+1] + "]")
	}
	return p.String()
}

// Trace is how a name was found.
type Trace int

// The keys by which locks are found. A lock with a token is found by that alone, whichever of its
// keys a scan comes upon.
const (
	NoTrace   Trace = iota // not the key of a lock
	ByToken                // of which a lock has one, once it was granted, until an hour after
	ByQueue                // of a fair lock that only Redisson has had
	ByLatch                // of which a latch has some, one for as long as it stands; a semaphore has that one, too
	ByChannel              // on which somebody waits
)

// Named tells of which lock a key is. A name may be spelled with braces or without: then it is the one
// without, and twin is the other.
func Named(key string) (name string, by Trace) {
	for _, p := range []struct {
		prefix string
		by     Trace
	}{{tokenPrefix + ":", ByToken}, {queuePrefix + ":", ByQueue}} {
		if rest, ok := strings.CutPrefix(key, p.prefix); ok {
			name, _ = bare(rest)
			return valid(name, p.by)
		}
	}
	if rest, ok := strings.CutPrefix(key, latchCalls); ok {
		if at := owner.FindStringIndex(rest); at != nil {
			rest = rest[:at[0]]
		}
		name, _ = bare(rest)
		return valid(name, ByLatch)
	}
	return "", NoTrace
}

func valid(name string, by Trace) (string, Trace) {
	if Check(name) != nil {
		return "", NoTrace
	}
	return name, by
}

// Wants reports whether a key belongs to a semaphore, and looks like a lock: a hash of owners.
func Wants(key string) bool { return strings.HasPrefix(key, permitWantsPrefix+":") }

// Twin is the other name whose derived keys are the same, empty if there is none.
func Twin(name string) string {
	if other := twin(name); other != name {
		return other
	}
	return ""
}

// Channels are patterns for PUBSUB CHANNELS that find the channels of which [Heard] tells the names.
func Channels() []string {
	list := make([]string, 0, 4)
	for _, prefix := range []string{channelPrefix + ":", rwPrefix + ":", permitsPrefix + ":", latchChannel} {
		list = append(list, prefix+"*")
	}
	return list
}

const uuid = `[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}`

var (
	// mailbox is what stands behind a channel on which one client, or one of Redisson's threads, is called.
	mailbox = regexp.MustCompile(`:` + uuid + `(:\d+)?$`)
	// owner is what stands behind the key of a call.
	owner = regexp.MustCompile(`:` + uuid + `:h\d+$`)
)

// Heard tells for which lock somebody listens on a channel, as [Named] does.
func Heard(channel string) (name string, by Trace) {
	for _, prefix := range []string{channelPrefix + ":", rwPrefix + ":", permitsPrefix + ":", latchChannel + ":", latchChannel} {
		if rest, ok := strings.CutPrefix(channel, prefix); ok {
			if at := mailbox.FindStringIndex(rest); at != nil {
				rest = rest[:at[0]]
			}
			if prefix == latchChannel && strings.Count(rest, "{") > 1 { // its braces stand around those of the name
				rest = strings.TrimSuffix(strings.TrimPrefix(rest, "{"), "}")
			}
			name, _ = bare(rest)
			return valid(name, ByChannel)
		}
	}
	return "", NoTrace
}
