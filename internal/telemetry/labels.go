package telemetry

import (
	"strings"
	"sync"

	"github.com/holdfast-go/holdfast/internal/printable"
)

// Kinds are the kinds of lock of which an observer hears, as [holdfast.Error] has them. Of a multilock
// its members are heard of.
var Kinds = []string{"rlock", "fairlock", "rwlock", "semaphore", "redlock", "election"}

// Other is the class of all names for which there is no room among the classes.
const Other = "other"

// DefaultMaxClasses is how many pairs of kind and class have numbers of their own by default.
//
// It is for a pair and not for a class, because the pairs are what makes series. A hundred pairs and
// one of other names for each kind have less than a thousand outcomes. OpenTelemetry's SDK folds
// what goes beyond two thousand into one series, in silence.
const DefaultMaxClasses = 100

// classes maps names to classes, of which there are so many and no more.
type classes struct {
	of  func(name string) string // nil: all names have the class ""
	max int

	mu    sync.RWMutex // guards known
	known map[[2]string]bool
}

// class returns the class of a name under a kind. The first classes to come have numbers of their
// own for as long as the process lives: one that replaced another would let its counters fall.
func (c *classes) class(kind, name string) string {
	if c.of == nil {
		return ""
	}
	pair := [2]string{kind, classOf(c.of, name)}
	c.mu.RLock()
	known, full := c.known[pair], len(c.known) >= c.max
	c.mu.RUnlock()
	switch {
	case known || pair[1] == Other:
		return pair[1]
	case full:
		return Other
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if len(c.known) >= c.max && !c.known[pair] {
		return Other
	}
	if c.known == nil {
		c.known = map[[2]string]bool{}
	}
	pair[1] = strings.Clone(pair[1]) // it may be a piece of a name that is much longer
	c.known[pair] = true
	return pair[1]
}

// classOf calls the user's function, of which a panic must not leave numbers that do not fit.
func classOf(f func(string) string, name string) (class string) {
	defer func() {
		if recover() != nil {
			class = Other
		}
	}()
	return printable.Name(f(name)) // exporters refuse what is no UTF-8
}
