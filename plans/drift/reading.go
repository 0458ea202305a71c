// Copyright The Plangate Authors.
// SPDX-License-Identifier: Apache-2.0

package drift

// Reading is what a look at the real resources came to.
type Reading struct {
	// Resources are those that Pulumi knows or wants, sorted by URN; neither providers nor the stack itself.
	Resources []Resource
	// Obstacles are what kept the look, or the preview after it, from its end. None: it succeeded.
	Obstacles []Obstacle
	// Ended says that the events are those of a whole run. Without, what is missing is not known.
	Ended bool
}

// Resource is what is known of one resource.
type Resource struct {
	URN, Type, Name string
	// Known says that it is in the state.
	Known bool
	// Read says that the real one was read; Live is then what was found, nil when it is gone.
	Read        bool
	State, Live *Values
	// Judged says that the provider said what differs; Differs are the paths of that, as Path writes them.
	Judged  bool
	Differs []string
	// Ignored are the paths that the program tells Pulumi to ignore.
	Ignored []string
	// Wanted are the inputs of the program. Nil: it has no such resource, or did not come so far.
	Wanted map[string]any
	// Step is what applying would do: "same", "update", "replace", "create", "delete". Empty: nothing, or it is not known.
	Step string
	// Upgrade says that its provider's version changes: "files 0.1.0 → 0.2.0". Empty: it does not.
	Upgrade string
}

// Values are a resource's properties, decoded from JSON with numbers kept as they are written.
type Values struct {
	Inputs, Outputs map[string]any
}

// Kind tells obstacles apart.
type Kind string

// The kinds of obstacles.
const (
	// Unreadable: the provider could not read a resource.
	ObstacleUnreadable Kind = "Unreadable"
	// Conflict: another manager owns a field.
	ObstacleConflict Kind = "Conflict"
	// Forbidden: a right is missing.
	ObstacleForbidden Kind = "Forbidden"
	// Missing: something that is needed is gone.
	ObstacleMissing Kind = "Missing"
	// Failed: anything else.
	ObstacleFailed Kind = "Failed"
)

// Obstacle is what kept something from being read or previewed.
type Obstacle struct {
	// Kind tells what it is.
	Kind Kind `json:"kind"`
	// URN is the resource that it is about. Empty: the program, or all of it.
	URN string `json:"urn,omitempty"`
	// Reading says that reading the resource failed, and not the preview after it.
	Reading bool `json:"reading,omitempty"`
	// Text is what was said.
	Text string `json:"text"`
	// Fields are the fields that it is about, where the text tells: ".spec.replicas".
	Fields []string `json:"fields,omitempty"`
	// Writer is the other side of a conflict, where the text tells.
	Writer string `json:"writer,omitempty"`
}

// suggestions say what a person can do.
var suggestions = map[Kind]string{
	ObstacleUnreadable: "find out why it cannot be read (is the service up, do the credentials still hold?), then check again",
	ObstacleConflict: "decide who owns the field: take it out of the program or name it in ignoreChanges to leave it to the other, " +
		"or let Pulumi take it over (for Kubernetes: the annotation pulumi.com/patchForce on the resource)",
	ObstacleForbidden: "give the workspace's credentials or ServiceAccount the right that is missing, then check again",
	ObstacleMissing:   "bring back what it depends on, or take it out of the program, then check again",
	ObstacleFailed:    "read the text: the program or a provider has to be put right first",
}

// Suggestion says what a person can do about an obstacle.
func (o Obstacle) Suggestion() string {
	if s, ok := suggestions[o.Kind]; ok {
		return s
	}
	return suggestions[ObstacleFailed]
}
