"""Contains all the data models used in inputs/outputs"""

from .affine_latency import AffineLatency
from .agent_data import AgentData
from .agent_figures import AgentFigures
from .binding import Binding
from .binding_cap import BindingCap
from .binding_largest import BindingLargest
from .binding_requested import BindingRequested
from .binding_reserved import BindingReserved
from .binding_spent import BindingSpent
from .bpr_latency import BprLatency
from .budget_answer import BudgetAnswer
from .budget_answer_scope import BudgetAnswerScope
from .budget_list import BudgetList
from .cancel_answer import CancelAnswer
from .cancel_answer_cancel import CancelAnswerCancel
from .cancel_answer_charge import CancelAnswerCharge
from .cancel_answer_state import CancelAnswerState
from .cap import Cap
from .cap_list import CapList
from .cap_request import CapRequest
from .cap_request_scope import CapRequestScope
from .certificate_check import CertificateCheck
from .certificate_check_name import CertificateCheckName
from .certificate_request import CertificateRequest
from .certificate_request_certificate import CertificateRequestCertificate
from .certificate_request_result_type_0 import CertificateRequestResultType0
from .certificate_request_tables import CertificateRequestTables
from .certificate_verdict import CertificateVerdict
from .coupled_qp import CoupledQp
from .coupled_qp_mode import CoupledQpMode
from .coupled_qp_protocol import CoupledQpProtocol
from .dataset_answer import DatasetAnswer
from .dataset_answer_mode import DatasetAnswerMode
from .dataset_answer_public import DatasetAnswerPublic
from .dataset_name import DatasetName
from .dataset_page import DatasetPage
from .dr_ensemble import DrEnsemble
from .dr_ensemble_content import DrEnsembleContent
from .dr_ensemble_dataset import DrEnsembleDataset
from .dr_ensemble_dataset_mode import DrEnsembleDatasetMode
from .dr_ensemble_method import DrEnsembleMethod
from .dr_ensemble_policy import DrEnsemblePolicy
from .dr_ensemble_public import DrEnsemblePublic
from .dr_ensemble_public_unit import DrEnsemblePublicUnit
from .encryption import Encryption
from .encryption_scheme import EncryptionScheme
from .entry_page import EntryPage
from .entry_page_entries_item import EntryPageEntriesItem
from .erased_answer import ErasedAnswer
from .federated_agents import FederatedAgents
from .federation_terms import FederationTerms
from .federation_terms_on_missing import FederationTermsOnMissing
from .figures import Figures
from .filter_figures import FilterFigures
from .fourier_features import FourierFeatures
from .grant_request import GrantRequest
from .head_answer import HeadAnswer
from .health_answer import HealthAnswer
from .health_answer_checks_type_0 import HealthAnswerChecksType0
from .identity_features import IdentityFeatures
from .issue import Issue
from .job_answer import JobAnswer
from .job_answer_state import JobAnswerState
from .job_error import JobError
from .job_page import JobPage
from .job_progress import JobProgress
from .job_request import JobRequest
from .key_answer import KeyAnswer
from .key_answer_role import KeyAnswerRole
from .key_entry import KeyEntry
from .key_entry_role import KeyEntryRole
from .key_list import KeyList
from .key_request import KeyRequest
from .key_request_role import KeyRequestRole
from .limit_answer import LimitAnswer
from .link import Link
from .list_jobs_state_type_0 import ListJobsStateType0
from .multi_agent import MultiAgent
from .multi_agent_content import MultiAgentContent
from .multi_agent_content_initial_type_0 import MultiAgentContentInitialType0
from .multi_agent_content_objectives import MultiAgentContentObjectives
from .multi_agent_dataset import MultiAgentDataset
from .multi_agent_dataset_mode import MultiAgentDatasetMode
from .multi_agent_protocol import MultiAgentProtocol
from .multi_agent_public import MultiAgentPublic
from .noise_summary import NoiseSummary
from .off_policy_content import OffPolicyContent
from .off_policy_dataset import OffPolicyDataset
from .off_policy_dataset_mode import OffPolicyDatasetMode
from .off_policy_evaluation import OffPolicyEvaluation
from .off_policy_evaluation_method import OffPolicyEvaluationMethod
from .off_policy_public import OffPolicyPublic
from .off_policy_public_neighbours_type_0 import OffPolicyPublicNeighboursType0
from .operator_data import OperatorData
from .plan_answer import PlanAnswer
from .plan_body import PlanBody
from .plan_body_events_item import PlanBodyEventsItem
from .plan_body_iterations import PlanBodyIterations
from .price import Price
from .privacy import Privacy
from .problem_document import ProblemDocument
from .qp_steps import QpSteps
from .register_dataset_files_body import RegisterDatasetFilesBody
from .resources import Resources
from .result_answer import ResultAnswer
from .result_answer_certificate import ResultAnswerCertificate
from .result_answer_result import ResultAnswerResult
from .road_network import RoadNetwork
from .roster_request import RosterRequest
from .routing import Routing
from .routing_content import RoutingContent
from .routing_dataset import RoutingDataset
from .routing_dataset_mode import RoutingDatasetMode
from .routing_method import RoutingMethod
from .routing_objective import RoutingObjective
from .routing_public import RoutingPublic
from .routing_public_unit import RoutingPublicUnit
from .session_agent_answer import SessionAgentAnswer
from .session_agent_answer_announcement import SessionAgentAnswerAnnouncement
from .session_agent_answer_receipt_type_0 import SessionAgentAnswerReceiptType0
from .session_answer import SessionAnswer
from .session_answer_parameters_type_0 import SessionAnswerParametersType0
from .session_answer_state import SessionAnswerState
from .session_answer_terms import SessionAnswerTerms
from .session_answer_tokens import SessionAnswerTokens
from .session_tokens_answer import SessionTokensAnswer
from .session_tokens_request import SessionTokensRequest
from .step_schedule import StepSchedule
from .sum_noise import SumNoise
from .tabular_features import TabularFeatures
from .tenant_answer import TenantAnswer
from .tenant_request import TenantRequest
from .transition_row import TransitionRow
from .trip import Trip
from .webhook_answer import WebhookAnswer
from .webhook_answer_events_item import WebhookAnswerEventsItem
from .webhook_created import WebhookCreated
from .webhook_created_events_item import WebhookCreatedEventsItem
from .webhook_list import WebhookList
from .webhook_request import WebhookRequest
from .webhook_request_events_item import WebhookRequestEventsItem

__all__ = (
    "AffineLatency",
    "AgentData",
    "AgentFigures",
    "Binding",
    "BindingCap",
    "BindingLargest",
    "BindingRequested",
    "BindingReserved",
    "BindingSpent",
    "BprLatency",
    "BudgetAnswer",
    "BudgetAnswerScope",
    "BudgetList",
    "CancelAnswer",
    "CancelAnswerCancel",
    "CancelAnswerCharge",
    "CancelAnswerState",
    "Cap",
    "CapList",
    "CapRequest",
    "CapRequestScope",
    "CertificateCheck",
    "CertificateCheckName",
    "CertificateRequest",
    "CertificateRequestCertificate",
    "CertificateRequestResultType0",
    "CertificateRequestTables",
    "CertificateVerdict",
    "CoupledQp",
    "CoupledQpMode",
    "CoupledQpProtocol",
    "DatasetAnswer",
    "DatasetAnswerMode",
    "DatasetAnswerPublic",
    "DatasetName",
    "DatasetPage",
    "DrEnsemble",
    "DrEnsembleContent",
    "DrEnsembleDataset",
    "DrEnsembleDatasetMode",
    "DrEnsembleMethod",
    "DrEnsemblePolicy",
    "DrEnsemblePublic",
    "DrEnsemblePublicUnit",
    "Encryption",
    "EncryptionScheme",
    "EntryPage",
    "EntryPageEntriesItem",
    "ErasedAnswer",
    "FederatedAgents",
    "FederationTerms",
    "FederationTermsOnMissing",
    "Figures",
    "FilterFigures",
    "FourierFeatures",
    "GrantRequest",
    "HeadAnswer",
    "HealthAnswer",
    "HealthAnswerChecksType0",
    "IdentityFeatures",
    "Issue",
    "JobAnswer",
    "JobAnswerState",
    "JobError",
    "JobPage",
    "JobProgress",
    "JobRequest",
    "KeyAnswer",
    "KeyAnswerRole",
    "KeyEntry",
    "KeyEntryRole",
    "KeyList",
    "KeyRequest",
    "KeyRequestRole",
    "LimitAnswer",
    "Link",
    "ListJobsStateType0",
    "MultiAgent",
    "MultiAgentContent",
    "MultiAgentContentInitialType0",
    "MultiAgentContentObjectives",
    "MultiAgentDataset",
    "MultiAgentDatasetMode",
    "MultiAgentProtocol",
    "MultiAgentPublic",
    "NoiseSummary",
    "OffPolicyContent",
    "OffPolicyDataset",
    "OffPolicyDatasetMode",
    "OffPolicyEvaluation",
    "OffPolicyEvaluationMethod",
    "OffPolicyPublic",
    "OffPolicyPublicNeighboursType0",
    "OperatorData",
    "PlanAnswer",
    "PlanBody",
    "PlanBodyEventsItem",
    "PlanBodyIterations",
    "Price",
    "Privacy",
    "ProblemDocument",
    "QpSteps",
    "RegisterDatasetFilesBody",
    "Resources",
    "ResultAnswer",
    "ResultAnswerCertificate",
    "ResultAnswerResult",
    "RoadNetwork",
    "RosterRequest",
    "Routing",
    "RoutingContent",
    "RoutingDataset",
    "RoutingDatasetMode",
    "RoutingMethod",
    "RoutingObjective",
    "RoutingPublic",
    "RoutingPublicUnit",
    "SessionAgentAnswer",
    "SessionAgentAnswerAnnouncement",
    "SessionAgentAnswerReceiptType0",
    "SessionAnswer",
    "SessionAnswerParametersType0",
    "SessionAnswerState",
    "SessionAnswerTerms",
    "SessionAnswerTokens",
    "SessionTokensAnswer",
    "SessionTokensRequest",
    "StepSchedule",
    "SumNoise",
    "TabularFeatures",
    "TenantAnswer",
    "TenantRequest",
    "TransitionRow",
    "Trip",
    "WebhookAnswer",
    "WebhookAnswerEventsItem",
    "WebhookCreated",
    "WebhookCreatedEventsItem",
    "WebhookList",
    "WebhookRequest",
    "WebhookRequestEventsItem",
)
