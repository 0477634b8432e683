"""The public names, in the order of the pipeline; each is imported when it is first asked for.

`import armillary as am` is instant: the room of a name, and the heavy library behind it, is entered at first use.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING

# The one table: name -> where it lives. The order is the pipeline's: a dynamics and its laws; a decoder, documents,
# asked of them, after which preparation; what may be claimed of the answers; the study, its record; what can go wrong.
_PUBLIC = {
    "Softmax": "armillary.dynamics.attention",
    "Unnormalized": "armillary.dynamics.attention",
    "Uniform": "armillary.dynamics.attention",
    "Hardmax": "armillary.dynamics.attention",
    "Full": "armillary.dynamics.attention",
    "Causal": "armillary.dynamics.attention",
    "Window": "armillary.dynamics.attention",
    "Allowed": "armillary.dynamics.attention",
    "Heads": "armillary.dynamics.heads",
    "Drift": "armillary.dynamics.drifts",
    "AttentionDrift": "armillary.dynamics.attention_drift",
    "RotaryPositions": "armillary.dynamics.attention_drift",
    "AdditivePositions": "armillary.dynamics.attention_drift",
    "MLPDrift": "armillary.dynamics.pushes",
    "Injection": "armillary.dynamics.pushes",
    "Frequencies": "armillary.dynamics.pushes",
    "Noise": "armillary.dynamics.pushes",
    "Perceptron": "armillary.dynamics.pushes",
    "Layered": "armillary.dynamics.drifts",
    "VelocityField": "armillary.dynamics.normalization",
    "on_sphere": "armillary.dynamics.normalization",
    "pre_norm": "armillary.dynamics.normalization",
    "mix_norm": "armillary.dynamics.normalization",
    "peri_norm": "armillary.dynamics.normalization",
    "ngpt": "armillary.dynamics.normalization",
    "sqrt_depth": "armillary.dynamics.normalization",
    "flat": "armillary.dynamics.normalization",
    "RMSNorm": "armillary.dynamics.normalization",
    "LayerNorm": "armillary.dynamics.normalization",
    "Euler": "armillary.dynamics.integrators",
    "RK4": "armillary.dynamics.integrators",
    "Tsit5": "armillary.dynamics.integrators",
    "ResidualLayer": "armillary.dynamics.integrators",
    "StratonovichHeun": "armillary.dynamics.integrators",
    "Merging": "armillary.dynamics.merging",
    "flow": "armillary.dynamics.flow",
    "overlap_field": "armillary.dynamics.overlaps",
    "Trajectory": "armillary.trajectory",
    "Energy": "armillary.dynamics.energy",
    "energy_of": "armillary.dynamics.energy",
    "ingredients": "armillary.dynamics.ingredients",
    "Stationarity": "armillary.dynamics.stationary",
    "stationarity": "armillary.dynamics.stationary",
    "growth_rates": "armillary.dynamics.stationary",
    "hemisphere": "armillary.dynamics.outlook",
    "oracles": "armillary.oracles",
    "load_decoder": "armillary.models.decoder",
    "decoder_from_model": "armillary.models.decoder",
    "prove": "armillary.models.decoder",
    "Decoder": "armillary.models.decoder",
    "DecoderFacts": "armillary.models.decoder",
    "Promise": "armillary.models.decoder",
    "Family": "armillary.models.families",
    "FAMILIES": "armillary.models.families",
    "Documents": "armillary.models.documents",
    "Truncate": "armillary.models.cutting",
    "Split": "armillary.models.cutting",
    "Pack": "armillary.models.cutting",
    "parse_cut": "armillary.models.cutting",
    "StartTokenWarning": "armillary.models.start_token",
    "Trained": "armillary.models.conditions",
    "Initial": "armillary.models.conditions",
    "Ablated": "armillary.models.conditions",
    "parse_condition": "armillary.models.conditions",
    "Tap": "armillary.models.capture",
    "stream": "armillary.models.capture",
    "capture": "armillary.models.capture",
    "capture_padded": "armillary.models.padding",
    "Gauge": "armillary.models.gauges.declaration",
    "gauges_of": "armillary.models.gauges.listing",
    "GaugeProof": "armillary.models.gauges.verification",
    "GaugeTrial": "armillary.models.gauges.verification",
    "FoldGains": "armillary.models.gauges.gains",
    "RandomGains": "armillary.models.gauges.gains",
    "Rotation": "armillary.models.gauges.rotations",
    "SignedPermutation": "armillary.models.gauges.rotations",
    "RemoveFeatureMean": "armillary.models.gauges.feature_mean",
    "AddFeatureMean": "armillary.models.gauges.feature_mean",
    "StreamScale": "armillary.models.gauges.scale",
    "QueryKeyMaps": "armillary.models.gauges.query_key",
    "QueryKeyGains": "armillary.models.gauges.query_key",
    "KeyBias": "armillary.models.gauges.query_key",
    "ValueOutput": "armillary.models.gauges.value_output",
    "ValueBias": "armillary.models.gauges.value_output",
    "HeadPermutation": "armillary.models.gauges.heads",
    "NeuronPermutation": "armillary.models.gauges.neurons",
    "NeuronScaling": "armillary.models.gauges.neurons",
    "UpDownScaling": "armillary.models.gauges.neurons",
    "UnembeddingShift": "armillary.models.gauges.unembedding",
    "Composition": "armillary.models.gauges.composition",
    "Ensemble": "armillary.trajectory",
    "Event": "armillary.trajectory",
    "sphere": "armillary.sphere",
    "Configuration": "armillary.shapes",
    "Overlaps": "armillary.shapes",
    "Pairs": "armillary.shapes",
    "Spectrum": "armillary.shapes",
    "Value": "armillary.shapes",
    "Preparation": "armillary.observables.declaration",
    "Observable": "armillary.observables.declaration",
    "Measurement": "armillary.observables.declaration",
    "observable": "armillary.observables.declaration",
    "OBSERVABLES": "armillary.observables.declaration",
    "Cloud": "armillary.observables.cloud",
    "Calibration": "armillary.observables.cloud",
    "overlaps": "armillary.observables.alignment",
    "overlap_histogram": "armillary.observables.alignment",
    "mean_overlap": "armillary.observables.alignment",
    "smallest_overlap": "armillary.observables.alignment",
    "mean_direction": "armillary.observables.alignment",
    "squared_mean_direction": "armillary.observables.alignment",
    "exponential_overlap": "armillary.observables.alignment",
    "uniformity": "armillary.observables.isotropy",
    "participation_rank": "armillary.observables.rank",
    "algebraic_rank": "armillary.observables.rank",
    "entropy_rank": "armillary.observables.rank",
    "squared_entropy_rank": "armillary.observables.rank",
    "stable_rank": "armillary.observables.rank",
    "nuclear_over_spectral": "armillary.observables.rank",
    "variance_components": "armillary.observables.rank",
    "population_participation_rank": "armillary.observables.population",
    "population_participation_rank_about_zero": "armillary.observables.population",
    "both_ways_participation_rank": "armillary.observables.population",
    "rank_ceiling": "armillary.observables.rank",
    "isotropic_participation_rank": "armillary.observables.rank",
    "AngularDistance": "armillary.observables.distances",
    "ChordalDistance": "armillary.observables.distances",
    "Connected": "armillary.observables.grouping",
    "AverageLinkage": "armillary.observables.grouping",
    "CompleteLinkage": "armillary.observables.grouping",
    "Groups": "armillary.observables.grouping",
    "HDBSCAN": "armillary.observables.grouping",
    "Grouping": "armillary.observables.grouping",
    "cluster_count": "armillary.observables.clustering",
    "clustering_order_parameter": "armillary.observables.clustering",
    "group_labels": "armillary.observables.clustering",
    "noise_share": "armillary.observables.clustering",
    "cluster_sweep": "armillary.observables.clustering",
    "Majority": "armillary.observables.group_history",
    "GroupHistory": "armillary.observables.group_history",
    "followed_groups": "armillary.observables.group_history",
    "isotropy_score": "armillary.observables.isotropy",
    "intrinsic_dimension": "armillary.observables.neighbors",
    "duplicate_rows": "armillary.observables.neighbors",
    "attention_antisymmetric_share": "armillary.observables.attention_maps",
    "attention_distance": "armillary.observables.attention_maps",
    "attention_entropy": "armillary.observables.attention_maps",
    "attention_first_mass": "armillary.observables.attention_maps",
    "attention_largest_mass_elsewhere": "armillary.observables.attention_maps",
    "attention_participation_rank": "armillary.observables.attention_maps",
    "attention_relative_entropy": "armillary.observables.attention_maps",
    "attention_sink_mass": "armillary.observables.attention_maps",
    "received_mass": "armillary.observables.attention_maps",
    "attention_effective_beta": "armillary.observables.attention_beta",
    "attention_overlap_slope": "armillary.observables.attention_beta",
    "map_number": "armillary.observables.attention_declaration",
    "map_numbers": "armillary.observables.attention_declaration",
    "MapNumber": "armillary.observables.attention_declaration",
    "attention_stream": "armillary.models.attention",
    "stream_norm_mean": "armillary.observables.drift",
    "stream_norm_spread": "armillary.observables.drift",
    "stream_norm_median": "armillary.observables.drift",
    "stream_norm_first": "armillary.observables.drift",
    "zero_rows": "armillary.observables.drift",
    "massive_tokens": "armillary.observables.drift",
    "sublayer_update": "armillary.observables.drift",
    "BetweenLayers": "armillary.observables.between",
    "BetweenMeasurement": "armillary.observables.between",
    "between_layers": "armillary.observables.between",
    "BETWEEN_LAYERS": "armillary.observables.between",
    "largest_coordinate_share": "armillary.observables.coordinates",
    "coordinate_kurtosis": "armillary.observables.coordinates",
    "linear_cka": "armillary.observables.correspondence",
    "neighbor_overlap": "armillary.observables.correspondence",
    "Transformation": "armillary.transformations.declaration",
    "Orthogonal": "armillary.transformations.linear",
    "FeaturePermutation": "armillary.transformations.linear",
    "DiagonalGain": "armillary.transformations.linear",
    "GeneralLinear": "armillary.transformations.linear",
    "Linear": "armillary.transformations.linear",
    "TokenPermutation": "armillary.transformations.rows",
    "GlobalScale": "armillary.transformations.rows",
    "RowScale": "armillary.transformations.rows",
    "Translation": "armillary.transformations.rows",
    "Centering": "armillary.transformations.rows",
    "Claim": "armillary.observables.claims",
    "audit": "armillary.invariance.audit",
    "Audit": "armillary.invariance.judgment",
    "Verdict": "armillary.invariance.verdicts",
    "verdict": "armillary.invariance.verdicts",
    "Estimate": "armillary.estimates",
    "Intervals": "armillary.estimates",
    "Sample": "armillary.estimates",
    "estimate": "armillary.estimates",
    "contrast": "armillary.estimates",
    "intervals": "armillary.estimates",
    "Record": "armillary.records.record",
    "read_table": "armillary.records.exports",
    "read_arrays": "armillary.records.exports",
    "Penalty": "armillary.training.penalty",
    "PENALTIES": "armillary.training.penalties",
    "penalty": "armillary.training.penalty",
    "uniformity_penalty": "armillary.training.penalties",
    "mean_direction_penalty": "armillary.training.penalties",
    "overlap_ceiling_penalty": "armillary.training.penalties",
    "participation_rank_penalty": "armillary.training.penalties",
    "koleo_penalty": "armillary.training.penalties",
    "variance_penalty": "armillary.training.penalties",
    "covariance_penalty": "armillary.training.penalties",
    "target_overlap_penalty": "armillary.training.penalties",
    "IsotropicTarget": "armillary.training.targets",
    "GroupsTarget": "armillary.training.targets",
    "RingTarget": "armillary.training.targets",
    "tap": "armillary.training.tapping",
    "Regularizer": "armillary.training.regularizer",
    "penalty_cost": "armillary.training.regularizer",
    "GuardedSteps": "armillary.training.loop",
    "Initialized": "armillary.training.recipe",
    "RECIPES": "armillary.training.recipes",
    "parse_recipe": "armillary.training.recipes",
    "wide_decoder": "armillary.training.prediction",
    "Probe": "armillary.training.probe",
    "Monitor": "armillary.training.probe",
    "GeometryCallback": "armillary.training.trainer",
    "RegularizedTrainerMixin": "armillary.training.trainer",
    "attention_matrices": "armillary.models.matrices",
    "recipe": "armillary.training.recipe",
    "Plan": "armillary.studies.plan",
    "default_measurements": "armillary.studies.plan",
    "Backend": "armillary.studies.backend",
    "numbers_under": "armillary.studies.gauging",
    "GaugedNumbers": "armillary.records.gauged",
    "Laboratory": "armillary.studies.laboratory",
    "Simulation": "armillary.studies.simulation",
    "Resistance": "armillary.studies.resistance.study",
    "clustering_budget": "armillary.studies.resistance.budget",
    "CapturedStates": "armillary.studies.captured",
    "States": "armillary.models.states",
    "ArmillaryError": "armillary.errors",
    "ArgumentError": "armillary.errors",
    "UnsoundError": "armillary.errors",
    "UnsupportedModelError": "armillary.errors",
    "NumericalError": "armillary.errors",
    "CheckMissed": "armillary.errors",
    "MissingIngredientError": "armillary.errors",
    "NothingLeft": "armillary.errors",
}

if TYPE_CHECKING:  # the same names for editors and type checkers; tests/test_house.py holds the two equal
    from armillary import oracles as oracles
    from armillary import sphere as sphere
    from armillary.dynamics.attention import Allowed as Allowed
    from armillary.dynamics.attention import Causal as Causal
    from armillary.dynamics.attention import Full as Full
    from armillary.dynamics.attention import Hardmax as Hardmax
    from armillary.dynamics.attention import Softmax as Softmax
    from armillary.dynamics.attention import Uniform as Uniform
    from armillary.dynamics.attention import Unnormalized as Unnormalized
    from armillary.dynamics.attention import Window as Window
    from armillary.dynamics.attention_drift import AdditivePositions as AdditivePositions
    from armillary.dynamics.attention_drift import AttentionDrift as AttentionDrift
    from armillary.dynamics.attention_drift import RotaryPositions as RotaryPositions
    from armillary.dynamics.drifts import Drift as Drift
    from armillary.dynamics.drifts import Layered as Layered
    from armillary.dynamics.energy import Energy as Energy
    from armillary.dynamics.energy import energy_of as energy_of
    from armillary.dynamics.flow import flow as flow
    from armillary.dynamics.heads import Heads as Heads
    from armillary.dynamics.ingredients import ingredients as ingredients
    from armillary.dynamics.integrators import RK4 as RK4
    from armillary.dynamics.integrators import Euler as Euler
    from armillary.dynamics.integrators import ResidualLayer as ResidualLayer
    from armillary.dynamics.integrators import StratonovichHeun as StratonovichHeun
    from armillary.dynamics.integrators import Tsit5 as Tsit5
    from armillary.dynamics.merging import Merging as Merging
    from armillary.dynamics.normalization import LayerNorm as LayerNorm
    from armillary.dynamics.normalization import RMSNorm as RMSNorm
    from armillary.dynamics.normalization import VelocityField as VelocityField
    from armillary.dynamics.normalization import flat as flat
    from armillary.dynamics.normalization import mix_norm as mix_norm
    from armillary.dynamics.normalization import ngpt as ngpt
    from armillary.dynamics.normalization import on_sphere as on_sphere
    from armillary.dynamics.normalization import peri_norm as peri_norm
    from armillary.dynamics.normalization import pre_norm as pre_norm
    from armillary.dynamics.normalization import sqrt_depth as sqrt_depth
    from armillary.dynamics.outlook import hemisphere as hemisphere
    from armillary.dynamics.overlaps import overlap_field as overlap_field
    from armillary.dynamics.pushes import Frequencies as Frequencies
    from armillary.dynamics.pushes import Injection as Injection
    from armillary.dynamics.pushes import MLPDrift as MLPDrift
    from armillary.dynamics.pushes import Noise as Noise
    from armillary.dynamics.pushes import Perceptron as Perceptron
    from armillary.dynamics.stationary import Stationarity as Stationarity
    from armillary.dynamics.stationary import growth_rates as growth_rates
    from armillary.dynamics.stationary import stationarity as stationarity
    from armillary.errors import ArgumentError as ArgumentError
    from armillary.errors import ArmillaryError as ArmillaryError
    from armillary.errors import CheckMissed as CheckMissed
    from armillary.errors import MissingIngredientError as MissingIngredientError
    from armillary.errors import NothingLeft as NothingLeft
    from armillary.errors import NumericalError as NumericalError
    from armillary.errors import UnsoundError as UnsoundError
    from armillary.errors import UnsupportedModelError as UnsupportedModelError
    from armillary.estimates import Estimate as Estimate
    from armillary.estimates import Intervals as Intervals
    from armillary.estimates import Sample as Sample
    from armillary.estimates import contrast as contrast
    from armillary.estimates import estimate as estimate
    from armillary.estimates import intervals as intervals
    from armillary.invariance.audit import audit as audit
    from armillary.invariance.judgment import Audit as Audit
    from armillary.invariance.verdicts import Verdict as Verdict
    from armillary.invariance.verdicts import verdict as verdict
    from armillary.models.attention import attention_stream as attention_stream
    from armillary.models.capture import Tap as Tap
    from armillary.models.capture import capture as capture
    from armillary.models.capture import stream as stream
    from armillary.models.conditions import Ablated as Ablated
    from armillary.models.conditions import Initial as Initial
    from armillary.models.conditions import Trained as Trained
    from armillary.models.conditions import parse_condition as parse_condition
    from armillary.models.cutting import Pack as Pack
    from armillary.models.cutting import Split as Split
    from armillary.models.cutting import Truncate as Truncate
    from armillary.models.cutting import parse_cut as parse_cut
    from armillary.models.decoder import Decoder as Decoder
    from armillary.models.decoder import DecoderFacts as DecoderFacts
    from armillary.models.decoder import Promise as Promise
    from armillary.models.decoder import decoder_from_model as decoder_from_model
    from armillary.models.decoder import load_decoder as load_decoder
    from armillary.models.decoder import prove as prove
    from armillary.models.documents import Documents as Documents
    from armillary.models.families import FAMILIES as FAMILIES
    from armillary.models.families import Family as Family
    from armillary.models.gauges.composition import Composition as Composition
    from armillary.models.gauges.declaration import Gauge as Gauge
    from armillary.models.gauges.feature_mean import AddFeatureMean as AddFeatureMean
    from armillary.models.gauges.feature_mean import RemoveFeatureMean as RemoveFeatureMean
    from armillary.models.gauges.gains import FoldGains as FoldGains
    from armillary.models.gauges.gains import RandomGains as RandomGains
    from armillary.models.gauges.heads import HeadPermutation as HeadPermutation
    from armillary.models.gauges.listing import gauges_of as gauges_of
    from armillary.models.gauges.neurons import NeuronPermutation as NeuronPermutation
    from armillary.models.gauges.neurons import NeuronScaling as NeuronScaling
    from armillary.models.gauges.neurons import UpDownScaling as UpDownScaling
    from armillary.models.gauges.query_key import KeyBias as KeyBias
    from armillary.models.gauges.query_key import QueryKeyGains as QueryKeyGains
    from armillary.models.gauges.query_key import QueryKeyMaps as QueryKeyMaps
    from armillary.models.gauges.rotations import Rotation as Rotation
    from armillary.models.gauges.rotations import SignedPermutation as SignedPermutation
    from armillary.models.gauges.scale import StreamScale as StreamScale
    from armillary.models.gauges.unembedding import UnembeddingShift as UnembeddingShift
    from armillary.models.gauges.value_output import ValueBias as ValueBias
    from armillary.models.gauges.value_output import ValueOutput as ValueOutput
    from armillary.models.gauges.verification import GaugeProof as GaugeProof
    from armillary.models.gauges.verification import GaugeTrial as GaugeTrial
    from armillary.models.matrices import attention_matrices as attention_matrices
    from armillary.models.padding import capture_padded as capture_padded
    from armillary.models.start_token import StartTokenWarning as StartTokenWarning
    from armillary.models.states import States as States
    from armillary.observables.alignment import exponential_overlap as exponential_overlap
    from armillary.observables.alignment import mean_direction as mean_direction
    from armillary.observables.alignment import mean_overlap as mean_overlap
    from armillary.observables.alignment import overlap_histogram as overlap_histogram
    from armillary.observables.alignment import overlaps as overlaps
    from armillary.observables.alignment import smallest_overlap as smallest_overlap
    from armillary.observables.alignment import squared_mean_direction as squared_mean_direction
    from armillary.observables.attention_beta import attention_effective_beta as attention_effective_beta
    from armillary.observables.attention_beta import attention_overlap_slope as attention_overlap_slope
    from armillary.observables.attention_declaration import MapNumber as MapNumber
    from armillary.observables.attention_declaration import map_number as map_number
    from armillary.observables.attention_declaration import map_numbers as map_numbers
    from armillary.observables.attention_maps import attention_antisymmetric_share as attention_antisymmetric_share
    from armillary.observables.attention_maps import attention_distance as attention_distance
    from armillary.observables.attention_maps import attention_entropy as attention_entropy
    from armillary.observables.attention_maps import attention_first_mass as attention_first_mass
    from armillary.observables.attention_maps import (
        attention_largest_mass_elsewhere as attention_largest_mass_elsewhere,
    )
    from armillary.observables.attention_maps import attention_participation_rank as attention_participation_rank
    from armillary.observables.attention_maps import attention_relative_entropy as attention_relative_entropy
    from armillary.observables.attention_maps import attention_sink_mass as attention_sink_mass
    from armillary.observables.attention_maps import received_mass as received_mass
    from armillary.observables.between import BETWEEN_LAYERS as BETWEEN_LAYERS
    from armillary.observables.between import BetweenLayers as BetweenLayers
    from armillary.observables.between import BetweenMeasurement as BetweenMeasurement
    from armillary.observables.between import between_layers as between_layers
    from armillary.observables.claims import Claim as Claim
    from armillary.observables.cloud import Calibration as Calibration
    from armillary.observables.cloud import Cloud as Cloud
    from armillary.observables.clustering import cluster_count as cluster_count
    from armillary.observables.clustering import cluster_sweep as cluster_sweep
    from armillary.observables.clustering import clustering_order_parameter as clustering_order_parameter
    from armillary.observables.clustering import group_labels as group_labels
    from armillary.observables.clustering import noise_share as noise_share
    from armillary.observables.coordinates import coordinate_kurtosis as coordinate_kurtosis
    from armillary.observables.coordinates import largest_coordinate_share as largest_coordinate_share
    from armillary.observables.correspondence import linear_cka as linear_cka
    from armillary.observables.correspondence import neighbor_overlap as neighbor_overlap
    from armillary.observables.declaration import OBSERVABLES as OBSERVABLES
    from armillary.observables.declaration import Measurement as Measurement
    from armillary.observables.declaration import Observable as Observable
    from armillary.observables.declaration import Preparation as Preparation
    from armillary.observables.declaration import observable as observable
    from armillary.observables.distances import AngularDistance as AngularDistance
    from armillary.observables.distances import ChordalDistance as ChordalDistance
    from armillary.observables.drift import massive_tokens as massive_tokens
    from armillary.observables.drift import stream_norm_first as stream_norm_first
    from armillary.observables.drift import stream_norm_mean as stream_norm_mean
    from armillary.observables.drift import stream_norm_median as stream_norm_median
    from armillary.observables.drift import stream_norm_spread as stream_norm_spread
    from armillary.observables.drift import sublayer_update as sublayer_update
    from armillary.observables.drift import zero_rows as zero_rows
    from armillary.observables.group_history import GroupHistory as GroupHistory
    from armillary.observables.group_history import Majority as Majority
    from armillary.observables.group_history import followed_groups as followed_groups
    from armillary.observables.grouping import HDBSCAN as HDBSCAN
    from armillary.observables.grouping import AverageLinkage as AverageLinkage
    from armillary.observables.grouping import CompleteLinkage as CompleteLinkage
    from armillary.observables.grouping import Connected as Connected
    from armillary.observables.grouping import Grouping as Grouping
    from armillary.observables.grouping import Groups as Groups
    from armillary.observables.isotropy import isotropy_score as isotropy_score
    from armillary.observables.isotropy import uniformity as uniformity
    from armillary.observables.neighbors import duplicate_rows as duplicate_rows
    from armillary.observables.neighbors import intrinsic_dimension as intrinsic_dimension
    from armillary.observables.population import both_ways_participation_rank as both_ways_participation_rank
    from armillary.observables.population import population_participation_rank as population_participation_rank
    from armillary.observables.population import (
        population_participation_rank_about_zero as population_participation_rank_about_zero,
    )
    from armillary.observables.rank import algebraic_rank as algebraic_rank
    from armillary.observables.rank import entropy_rank as entropy_rank
    from armillary.observables.rank import isotropic_participation_rank as isotropic_participation_rank
    from armillary.observables.rank import nuclear_over_spectral as nuclear_over_spectral
    from armillary.observables.rank import participation_rank as participation_rank
    from armillary.observables.rank import rank_ceiling as rank_ceiling
    from armillary.observables.rank import squared_entropy_rank as squared_entropy_rank
    from armillary.observables.rank import stable_rank as stable_rank
    from armillary.observables.rank import variance_components as variance_components
    from armillary.records.exports import read_arrays as read_arrays
    from armillary.records.exports import read_table as read_table
    from armillary.records.gauged import GaugedNumbers as GaugedNumbers
    from armillary.records.record import Record as Record
    from armillary.shapes import Configuration as Configuration
    from armillary.shapes import Overlaps as Overlaps
    from armillary.shapes import Pairs as Pairs
    from armillary.shapes import Spectrum as Spectrum
    from armillary.shapes import Value as Value
    from armillary.studies.backend import Backend as Backend
    from armillary.studies.captured import CapturedStates as CapturedStates
    from armillary.studies.gauging import numbers_under as numbers_under
    from armillary.studies.laboratory import Laboratory as Laboratory
    from armillary.studies.plan import Plan as Plan
    from armillary.studies.plan import default_measurements as default_measurements
    from armillary.studies.resistance.budget import clustering_budget as clustering_budget
    from armillary.studies.resistance.study import Resistance as Resistance
    from armillary.studies.simulation import Simulation as Simulation
    from armillary.training.loop import GuardedSteps as GuardedSteps
    from armillary.training.penalties import PENALTIES as PENALTIES
    from armillary.training.penalties import covariance_penalty as covariance_penalty
    from armillary.training.penalties import koleo_penalty as koleo_penalty
    from armillary.training.penalties import mean_direction_penalty as mean_direction_penalty
    from armillary.training.penalties import overlap_ceiling_penalty as overlap_ceiling_penalty
    from armillary.training.penalties import participation_rank_penalty as participation_rank_penalty
    from armillary.training.penalties import target_overlap_penalty as target_overlap_penalty
    from armillary.training.penalties import uniformity_penalty as uniformity_penalty
    from armillary.training.penalties import variance_penalty as variance_penalty
    from armillary.training.penalty import Penalty as Penalty
    from armillary.training.penalty import penalty as penalty
    from armillary.training.prediction import wide_decoder as wide_decoder
    from armillary.training.probe import Monitor as Monitor
    from armillary.training.probe import Probe as Probe
    from armillary.training.recipe import Initialized as Initialized
    from armillary.training.recipe import recipe as recipe
    from armillary.training.recipes import RECIPES as RECIPES
    from armillary.training.recipes import parse_recipe as parse_recipe
    from armillary.training.regularizer import Regularizer as Regularizer
    from armillary.training.regularizer import penalty_cost as penalty_cost
    from armillary.training.tapping import tap as tap
    from armillary.training.targets import GroupsTarget as GroupsTarget
    from armillary.training.targets import IsotropicTarget as IsotropicTarget
    from armillary.training.targets import RingTarget as RingTarget
    from armillary.training.trainer import GeometryCallback as GeometryCallback
    from armillary.training.trainer import RegularizedTrainerMixin as RegularizedTrainerMixin
    from armillary.trajectory import Ensemble as Ensemble
    from armillary.trajectory import Event as Event
    from armillary.trajectory import Trajectory as Trajectory
    from armillary.transformations.declaration import Transformation as Transformation
    from armillary.transformations.linear import DiagonalGain as DiagonalGain
    from armillary.transformations.linear import FeaturePermutation as FeaturePermutation
    from armillary.transformations.linear import GeneralLinear as GeneralLinear
    from armillary.transformations.linear import Linear as Linear
    from armillary.transformations.linear import Orthogonal as Orthogonal
    from armillary.transformations.rows import Centering as Centering
    from armillary.transformations.rows import GlobalScale as GlobalScale
    from armillary.transformations.rows import RowScale as RowScale
    from armillary.transformations.rows import TokenPermutation as TokenPermutation
    from armillary.transformations.rows import Translation as Translation

__all__ = list(_PUBLIC)


def __getattr__(name: str) -> object:
    if name == "__version__":
        from importlib.metadata import version

        return version("armillary")
    if name not in _PUBLIC:
        raise AttributeError(f"module 'armillary' has no attribute '{name}'")
    module = import_module(_PUBLIC[name])
    value = module if module.__name__ == f"armillary.{name}" else getattr(module, name)
    globals()[name] = value  # the next use finds it without asking
    return value


def __dir__() -> list[str]:
    return sorted({*globals(), *_PUBLIC, "__version__"})
